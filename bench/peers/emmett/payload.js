// What is stored: a small order, the same for every contestant.

/** Microseconds since 1970: all processes are on one machine. */
export const nowMicros = () => Math.trunc((performance.timeOrigin + performance.now()) * 1000);

const hex = (number) => number.toString(16).padStart(16, '0');

/** The next order of a writer; its id is 64 bits of writer and 64 bits of number. */
export const placed = (writer, number) => {
  const [high, low] = [hex(writer), hex(number)];
  return {
    order_id: `${high.slice(0, 8)}-${high.slice(8, 12)}-${high.slice(12)}-${low.slice(0, 4)}-${low.slice(4)}`,
    customer: 'c-1029',
    amount: nowMicros(),
    currency: 'EUR',
    lines: [
      { sku: 'A-100', qty: 2 },
      { sku: 'B-7', qty: 1 },
    ],
    note: 'leave at the door please',
  };
};

/** Who wrote it, and as which of theirs. */
export const origin = ({ order_id: id }) => {
  const digits = id.replaceAll('-', '');
  return [parseInt(digits.slice(0, 16), 16), parseInt(digits.slice(16), 16)];
};

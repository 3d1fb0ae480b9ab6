//! A shop, to see Highwater at work.

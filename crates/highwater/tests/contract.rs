//! The memory backend, held against the contract.

highwater_contract::suite!(highwater_contract::MemoryHarness);

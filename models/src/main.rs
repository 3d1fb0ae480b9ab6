//! x
use highwater_models::{explore, leadership::*};
fn main() {
    let a: Vec<u8> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
        for handling in [Handling::Each, Handling::Within] {
    let t = std::time::Instant::now();
    let size = Size { instances: a[0] as usize, faults: a.get(1).copied(), handling };
    println!("{handling:?} {:?} {:?}", explore(Leadership { rules: Rules::default(), size }), t.elapsed());
    }
}

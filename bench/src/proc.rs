//! What Linux says about processes, in `/proc`.

use std::time::Duration;

use crate::Error;

/// What times in `/proc` are counted in, as seen from outside the kernel on every machine.
const TICK: Duration = Duration::from_millis(10);

/// The fields of a process's `stat` from the state on, which is the third.
fn stat(pid: u32) -> Result<Vec<String>, Error> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before it may hold anything, even a parenthesis.
    let (_, rest) = text.rsplit_once(')').ok_or("a stat without a name")?;
    Ok(rest.split_whitespace().map(str::to_owned).collect())
}

/// Adds up fields, which are numbered as in proc(5).
fn ticks(stat: &[String], fields: &[usize]) -> Result<Duration, Error> {
    let mut sum = 0;
    for field in fields {
        sum += stat.get(field - 3).ok_or("a stat that is too short")?.parse::<u32>()?;
    }
    Ok(TICK * sum)
}

/// Processor time of a process so far, user and system.
pub(crate) fn cpu(pid: u32) -> Result<Duration, Error> {
    ticks(&stat(pid)?, &[14, 15])
}

/// The same of a process, of its children, and of those it has had.
pub(crate) fn cpu_of_family(pid: u32) -> Result<Duration, Error> {
    let mut sum = ticks(&stat(pid)?, &[14, 15, 16, 17])?;
    for entry in std::fs::read_dir("/proc")? {
        let Some(child) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended meanwhile.
        let Ok(stat) = stat(child) else { continue };
        if stat.get(1).is_some_and(|parent| *parent == pid.to_string()) {
            sum += ticks(&stat, &[14, 15])?;
        }
    }
    Ok(sum)
}

/// A field of a process's `status` in megabytes (10⁶ bytes): `VmRSS`, or `VmHWM`, which is the most it ever was.
pub(crate) fn megabytes(pid: u32, field: &str) -> Result<f64, Error> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no such field")?;
    Ok(kibibytes.parse::<f64>()? * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_time() {
        let pid = std::process::id();
        assert!(megabytes(pid, "VmHWM").unwrap() >= 1.0);
        while cpu(pid).unwrap().is_zero() {}
        // In this order: other tests in this process keep using time.
        let alone = cpu(pid).unwrap();
        assert!(cpu_of_family(pid).unwrap() >= alone);
    }
}

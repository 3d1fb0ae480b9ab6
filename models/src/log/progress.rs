//! From where progress is possible.
//!
//! "Can be reached from every reachable state" is not what the checker's `eventually` means. So it is an invariant here:
//! in each state that the checker reaches, the one continuation without faults and new writers is carried out. A reader is
//! deterministic, so that is all there is to try.

use super::{Action, Log, LogState, Numbers, Stage, WRITERS_MAX};

/// Statements in which a reader comes to whatever it can: four a page, and what was begun before.
const STATEMENTS_MAX: usize = 40;

impl Log {
    /// All that are open commit, or all roll back; then each reader continues alone.
    pub(super) fn gets_to_the_end(&self, state: &LogState) -> bool {
        [true, false].into_iter().all(|commit| {
            let mut state = *state;
            (0..WRITERS_MAX).for_each(|writer| self.end(&mut state, writer, commit));
            self.judged(&state).all(|reader| {
                let state = self.read_on(state, reader);
                state.server.are_delivered(&state.readers[reader], u8::MAX)
            })
        })
    }

    /// A reader continues until there is nothing more for it; another writer comes, and stays; those from before commit.
    pub(super) fn progresses_among_others(&self, state: &LogState) -> bool {
        let Some(newcomer) = state.writers.iter().position(|writer| writer.stage == Stage::Idle) else { return true };
        self.judged(state).all(|reader| {
            let mut state = self.read_on(*state, reader);
            let Some(looked_at) = state.readers[reader].previous else { return true };
            self.on_server(&mut state, Action::Lock(newcomer));
            self.on_server(&mut state, Action::Draw(newcomer));
            for writer in (0..WRITERS_MAX).filter(|writer| *writer != newcomer) {
                self.end(&mut state, writer, true);
            }
            let state = self.read_on(state, reader);
            state.server.are_delivered(&state.readers[reader], looked_at)
        })
    }

    fn end(&self, state: &mut LogState, at: usize, commit: bool) {
        let writer = &state.writers[at];
        match writer.stage {
            Stage::Idle | Stage::Gone => {}
            Stage::Open if commit && writer.numbers != Numbers::NONE => {
                self.on_server(state, Action::Commit(at));
                self.on_server(state, Action::Unlock(at));
            }
            Stage::Open => self.on_server(state, Action::RollBack(at)),
            Stage::Ending => self.on_server(state, Action::Unlock(at)),
        }
    }

    /// A reader alone, until its statements change nothing more.
    fn read_on(&self, mut state: LogState, at: usize) -> LogState {
        if !state.readers[at].connected {
            self.connect(&mut state, at);
        }
        for _ in 0..STATEMENTS_MAX {
            self.statement(&mut state, at);
        }
        state
    }
}

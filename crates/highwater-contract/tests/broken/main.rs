//! The suite can fail: backends that are broken on purpose, each in one way, and which cases reject them.
//!
//! Each case runs on one thread with a clock that stands still while anything can run. So it takes the same course
//! every time, and one that would wait for ever is found out at once.

mod drawn;
mod faults;
mod faulty;
mod rejections;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic;
use std::sync::Once;
use std::time::Duration;

use drawn::{DrawnHarness, Flaw};
use faults::{appending, calling, input, keeping, reading, repeating, upcasting, wakeups};
use faulty::{Fault, FaultyHarness};
use highwater::ExpectedVersion;
use highwater_contract::{Harness, cases, ignore_environment};
use rejections::REJECTIONS;

/// How long a case may take by a clock that only moves while nothing happens.
const DEADLINE: Duration = Duration::from_secs(60);

thread_local! {
    /// Whether panics on this thread are expected, and nobody wants to read of them.
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

fn silence_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !SILENT.get() {
                loud(info);
            }
        }));
    });
}

/// The cases that reject a backend, each with the reason it gave.
fn rejecting<H: Harness>(harness: impl Fn() -> H) -> Vec<(&'static str, String)> {
    ignore_environment();
    silence_expected_panics();
    SILENT.set(true);
    let rejected = cases::<H>().into_iter().filter_map(|case| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let outcome = runtime.expect("a test can make a runtime").block_on(case.run(harness(), DEADLINE));
        outcome.err().map(|reason| (case.name, reason))
    });
    let rejected = rejected.collect();
    SILENT.set(false);
    rejected
}

fn assert_rejected<H: Harness>(name: &str, harness: impl Fn() -> H) {
    let Some(written) = REJECTIONS.iter().find(|rejection| rejection.backend == name) else {
        panic!("it is not written down which cases reject {name}");
    };
    let rejecting = rejecting(harness);
    let actual: BTreeSet<&str> = rejecting.iter().map(|(case, _)| *case).collect();
    let wanted: BTreeSet<&str> = written.rejected_by.iter().copied().collect();
    if actual != wanted {
        let reasons: Vec<String> = rejecting.iter().map(|(case, reason)| format!("{case}: {reason}")).collect();
        panic!(
            "{name} (G{}) is rejected by other cases than written down, namely\n{:?}\n{}",
            written.breaks,
            actual,
            reasons.join("\n")
        );
    }
    assert!(!actual.is_empty(), "{name} is rejected by no case");
}

fn assert_accepted<H: Harness>(harness: impl Fn() -> H) {
    let rejecting = rejecting(harness);
    assert!(rejecting.is_empty(), "a sound backend is rejected: {rejecting:#?}");
}

/// No fault at all.
struct Nothing;

impl Fault for Nothing {}

#[test]
fn the_memory_backend_is_accepted_through_the_wrapper() {
    assert_accepted(|| FaultyHarness::new(Nothing));
}

#[test]
fn a_backend_that_draws_numbers_before_it_commits_is_accepted() {
    assert_accepted(|| DrawnHarness(None));
}

/// One test for each broken backend.
macro_rules! broken {
    ($($name:ident: $harness:expr;)*) => {
        $(
            #[test]
            fn $name() {
                assert_rejected(stringify!($name), || $harness);
            }
        )*

        #[test]
        fn what_is_written_down_is_about_these_backends() {
            let written: Vec<&str> = REJECTIONS.iter().map(|rejection| rejection.backend).collect();
            assert_eq!(written, [$(stringify!($name)),*]);
        }
    };
}

broken! {
    // Appending.
    stores_event_by_event: FaultyHarness::new(appending::StoresEventByEvent);
    stores_the_first_hundred_events: FaultyHarness::new(appending::StoresTheFirstHundredEvents);
    ignores_expectations: FaultyHarness::new(appending::Expects(|_| ExpectedVersion::Any));
    does_not_check_that_a_stream_exists: FaultyHarness::new(appending::Expects(|expected| match expected {
        ExpectedVersion::StreamExists => ExpectedVersion::Any,
        other => other,
    }));
    expects_the_same_of_all_streams: FaultyHarness::new(appending::ExpectsTheSameOfAllStreams);
    accepts_versions_that_have_passed: FaultyHarness::new(appending::AcceptsVersionsThatHavePassed);
    does_not_say_where_the_stream_is: FaultyHarness::new(appending::DoesNotSayWhereTheStreamIs);
    checks_and_then_acts: FaultyHarness::new(appending::ChecksAndThenActs);
    leaves_holes_in_versions: FaultyHarness::new(appending::LeavesHolesInVersions);
    numbers_backwards: FaultyHarness::new(appending::NumbersBackwards);
    numbers_stream_by_stream: FaultyHarness::new(appending::NumbersStreamByStream);

    // Appending twice.
    checks_versions_before_ids: FaultyHarness::new(repeating::ChecksVersionsBeforeIds);
    forgets_ids: FaultyHarness::new(repeating::ForgetsIds);
    completes_what_is_partly_stored: FaultyHarness::new(repeating::CompletesWhatIsPartlyStored);
    trusts_ids_alone: FaultyHarness::new(repeating::TrustsIdsAlone);
    repeats_with_other_places: FaultyHarness::new(repeating::RepeatsWithOtherPlaces);
    never_says_that_it_repeats: FaultyHarness::new(repeating::AlwaysSaysThatItRepeats(false));
    always_says_that_it_repeats: FaultyHarness::new(repeating::AlwaysSaysThatItRepeats(true));

    // Numbers that are drawn before the commit.
    reads_naively: DrawnHarness(Some(Flaw::ReadsNaively));
    settles_only_unfiltered_reads: DrawnHarness(Some(Flaw::SettlesOnlyUnfilteredReads));
    gives_up_on_slow_commits: DrawnHarness(Some(Flaw::GivesUpOnSlowCommits));
    shows_what_is_open: DrawnHarness(Some(Flaw::ShowsWhatIsOpen));
    hides_open_writers: DrawnHarness(Some(Flaw::HidesOpenWriters));
    counts_open_numbers_as_head: DrawnHarness(Some(Flaw::CountsOpenNumbersAsHead));
    draws_too_early: DrawnHarness(Some(Flaw::DrawsTooEarly));
    skips_versions_on_rollback: DrawnHarness(Some(Flaw::SkipsVersionsOnRollback));
    forgets_to_roll_back: DrawnHarness(Some(Flaw::ForgetsToRollBack));

    // Reading.
    resumes_inclusively: FaultyHarness::new(reading::ResumesInclusively);
    drops_the_last_of_a_page: FaultyHarness::new(reading::DropsTheLastOfAPage);
    ends_streams_with_the_page: FaultyHarness::new(reading::EndsStreamsWithThePage);
    filters_after_the_limit: FaultyHarness::new(reading::FiltersAfterTheLimit);
    stands_still_when_nothing_matches: FaultyHarness::new(reading::StandsStillWhenNothingMatches);
    filters_without_regard_to_case: FaultyHarness::new(reading::FiltersWithoutRegardToCase);
    writes_json_anew: FaultyHarness::new(reading::Shows(reading::json_written_anew));
    drops_metadata: FaultyHarness::new(reading::Shows(reading::no_metadata));
    keeps_whole_seconds: FaultyHarness::new(reading::Shows(reading::whole_seconds));
    trims_event_types: FaultyHarness::new(reading::Shows(reading::types_without_space));
    refuses_more_than_a_notification_holds: FaultyHarness::new(reading::RefusesMoreThanANotificationHolds);
    shows_no_sequence_backwards: FaultyHarness::new(reading::ShowsNoSequenceBackwards);
    reads_backwards_across_streams: FaultyHarness::new(reading::ReadsBackwardsAcrossStreams);
    panics_on_a_missing_stream: FaultyHarness::new(reading::PanicsOnAMissingStream);
    overflows_at_the_largest_version: FaultyHarness::new(reading::OverflowsAtTheLargestVersion);

    // Bad input.
    stores_null_for_bad_input: FaultyHarness::new(input::StoresNullForBadInput);
    keeps_a_trace_of_bad_input: FaultyHarness::new(input::KeepsATraceOfBadInput);
    says_that_bad_input_is_unavailable: FaultyHarness::new(input::SaysThatBadInputIsUnavailable);
    knows_no_limits: FaultyHarness::new(input::KnowsNoLimits);

    // Waking up.
    never_wakes: FaultyHarness::new(wakeups::NeverWakes::default());
    wakes_without_a_number: FaultyHarness::new(wakeups::Hints::new(|known, _| *known = 0));
    wakes_with_the_latest_number_instead_of_the_highest:
        FaultyHarness::new(wakeups::Hints::new(|known, announced| *known = announced));
    wakes_before_the_commit: FaultyHarness::new(wakeups::WakesBeforeTheCommit);
    wakes_for_what_is_refused: FaultyHarness::new(wakeups::WakesForWhatIsRefused);
    wakes_for_what_is_open: FaultyHarness::new(wakeups::WakesForWhatIsOpen);

    // Upcasting.
    has_no_upcasters: FaultyHarness::new(upcasting::HasNoUpcasters::default());
    filters_by_the_names_of_today: FaultyHarness::new(upcasting::FiltersByTheNamesOfToday);
    stores_schema_version_one: FaultyHarness::new(upcasting::StoresSchemaVersionOne);

    // Callers.
    fails_as_a_group: FaultyHarness::new(calling::FailsAsAGroup::default());
    stores_on_the_way: FaultyHarness::new(calling::StoresOnTheWay);
    stays_locked_when_given_up: FaultyHarness::new(calling::StaysLockedWhenGivenUp::default());
    stores_twice_when_given_up: FaultyHarness::new(calling::StoresTwiceWhenGivenUp);
    locks_streams_in_turn: DrawnHarness(Some(Flaw::LocksStreamsInTurn));
    locks_everything: DrawnHarness(Some(Flaw::LocksEverything));

    // Keeping.
    loses_everything_on_reopen: FaultyHarness::new(keeping::LosesEverythingOnReopen);
    loses_the_last_append_on_reopen: FaultyHarness::new(keeping::LosesTheLastAppendOnReopen::default());
    sees_nothing_of_other_handles: FaultyHarness::new(keeping::SeesNothingOfOtherHandles);
}

//! The suite can fail: backends that are broken on purpose, each in one way, and which cases reject them.
//!
//! Each case runs on one thread with a clock that stands still while anything can run. So it takes the same course
//! every time, and one that would wait for ever is found out at once; one that runs for ever, soon.
//!
//! A backend that gets the log or its wake-ups wrong is held against the cases about those. One that gets checkpoints,
//! transactions or letters wrong is held against those of the others that have to notice it.
//! Everything against everything would say little more and take four times as long. Sound backends have to pass all.

mod drawn;
mod faults;
mod faulty;
mod rejections;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic;
use std::sync::{Once, mpsc};
use std::time::Duration;

use chrono::DateTime;
use drawn::{DrawnHarness, Flaw};
use faults::{
    appending, calling, checkpoints, diagnose, input, keeping, leadership, letters, reading, repeating, transactions,
    transfer, upcasting, wakeups,
};
use faulty::{Fault, FaultyHarness};
use highwater::backend::{Checkpoints, Instance, LeaderHold, Log, NewRecord};
use highwater::{Append, Claim, Error, ExpectedVersion, MemoryEventStore};
use highwater_contract::{Case, Harness, Settings, cases, ignore_environment};
use rejections::REJECTIONS;
use uuid::Uuid;

/// How long a case may take by a clock that only moves while nothing happens.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long it may be at work by any other clock.
const BUSY_MAX: Duration = Duration::from_secs(5);

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

/// What is told apart: the contract of the log, and what delivery needs besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Log,
    Delivery,
}

impl Part {
    fn of<H>(case: &Case<H>) -> Self {
        const DELIVERY: [&str; 20] = [
            "checkpoints",
            "transactions",
            "dead_letters",
            "transfer",
            "leadership",
            "following",
            "resuming",
            "counting",
            "failing",
            "ordering",
            "desk",
            "controlling",
            "waiting",
            "rebuilding",
            "fencing",
            "instances",
            "spreading",
            "reporting",
            "steering",
            "troubled",
        ];
        if DELIVERY.contains(&case.topic) { Self::Delivery } else { Self::Log }
    }
}

/// Runs something for so long at most, by a clock that never stands still.
async fn for_real<T>(limit: Duration, running: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let (over, is_over) = tokio::sync::oneshot::channel();
    // Ends when its sender is dropped, so nobody waits for it.
    let (_done, is_done) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _gone = over.send(());
        }
    });
    tokio::select! {
        outcome = running => outcome,
        Ok(()) = is_over => Err(format!("it was still at work after {limit:?}")),
    }
}

/// Those of these cases that reject a backend, each with the reason it gave.
fn rejecting<H: Harness>(tried: impl Fn(&Case<H>) -> bool, harness: impl Fn() -> H) -> Vec<(&'static str, String)> {
    ignore_environment();
    silence_expected_panics();
    SILENT.set(true);
    let cases = cases::<H>().into_iter().filter(tried);
    let rejected = cases.filter_map(|case| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a test can make a runtime");
        let outcome = runtime.block_on(for_real(BUSY_MAX, case.run(harness(), DEADLINE)));
        runtime.shutdown_background();
        outcome.err().map(|reason| (case.name, reason))
    });
    let rejected = rejected.collect();
    SILENT.set(false);
    rejected
}

fn assert_rejected<H: Harness>(name: &str, part: Part, harness: impl Fn() -> H) {
    let Some(written) = REJECTIONS.iter().find(|rejection| rejection.backend == name) else {
        panic!("it is not written down which cases reject {name}");
    };
    let wanted: BTreeSet<&str> = written.rejected_by.iter().copied().collect();
    // Of delivery at least these have to reject it, so the others need not be asked.
    let tried = |case: &Case<H>| Part::of(case) == part && (part == Part::Log || wanted.contains(case.name));
    let rejecting = rejecting(tried, harness);
    let actual: BTreeSet<&str> = rejecting.iter().map(|(case, _)| *case).collect();
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
    let rejecting = rejecting(|_| true, harness);
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

#[tokio::test]
async fn a_copy_that_differs_is_found_out_and_stays_locked() {
    let source = MemoryEventStore::new();
    let record = |data: &str| NewRecord {
        id: Uuid::now_v7(),
        stream_id: Uuid::nil(),
        event_type: "Noted".to_owned(),
        schema_version: 1,
        data: data.to_owned(),
        metadata: r#"{"actor":"anna"}"#.to_owned(),
        created_at: DateTime::UNIX_EPOCH,
    };
    let noted = Append::to(Uuid::nil()).record(record("1")).record(record("2"));
    source.append(&noted).await.expect("memory takes it");
    source.take_over(&Claim::of("projection:orders")).await.expect("memory takes it");
    source.set_paused("projection:orders", true).await.expect("memory takes it");
    for (fault, named) in [
        (transfer::Fills::records(transfer::without_metadata), "event"),
        (transfer::Fills::records(transfer::half), "event"),
        (transfer::Fills::checkpoints(transfer::not_paused), "the checkpoint of \"projection:orders\""),
    ] {
        let copy = FaultyHarness::new(fault).fresh(Settings::default()).await;
        match highwater::transfer::copy(&source, "memory", &copy, |_| ()).await {
            Err(Error::CopyDiffers { difference }) => assert!(difference.starts_with(named), "{difference}"),
            other => panic!("the copy differs, which must be said: {other:?}"),
        }
        let refused = copy.append(&noted).await;
        assert!(matches!(refused, Err(Error::BeingFilled { .. })), "nobody gets to work on it: {refused:?}");
    }
}

/// One test for each broken backend.
macro_rules! broken {
    ($($part:ident { $($name:ident: $harness:expr;)* })*) => {
        $($(
            #[test]
            fn $name() {
                assert_rejected(stringify!($name), Part::$part, || $harness);
            }
        )*)*

        #[test]
        fn what_is_written_down_is_about_these_backends() {
            let written: Vec<&str> = REJECTIONS.iter().map(|rejection| rejection.backend).collect();
            assert_eq!(written, [$($(stringify!($name),)*)*]);
        }
    };
}

broken! {
    Log {
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

        // Looking at itself.
        calls_what_is_healthy_bad: FaultyHarness::new(diagnose::CallsWhatIsHealthyBad);
        plans_for_ever: FaultyHarness::new(diagnose::PlansForEver);
        gives_no_advice: FaultyHarness::new(diagnose::GivesNoAdvice);
        tells_in_any_order: FaultyHarness::new(diagnose::TellsInAnyOrder::default());
        leaves_a_trace_of_looking: FaultyHarness::new(diagnose::LeavesATraceOfLooking);

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

    Delivery {
        // Checkpoints.
        shares_checkpoints: FaultyHarness::new(checkpoints::SharesCheckpoints);
        starts_everybody_at_zero: FaultyHarness::new(checkpoints::StartsEverybodyAtZero);
        takes_a_missing_checkpoint_for_zero: FaultyHarness::new(checkpoints::TakesAMissingCheckpointForZero);
        moves_checkpoints_back: FaultyHarness::new(checkpoints::MovesCheckpointsBack);
        loses_checkpoints: FaultyHarness::new(checkpoints::LosesCheckpoints);
        stores_checkpoints_too_far: FaultyHarness::new(checkpoints::StoresCheckpointsTooFar);
        forgets_checkpoints_on_reopen: FaultyHarness::new(keeping::SeesNothingOfOtherHandles);
        gives_the_same_term_twice: FaultyHarness::new(checkpoints::GivesTheSameTermTwice);
        does_not_fence_checkpoints: FaultyHarness::new(checkpoints::DoesNotFenceCheckpoints);
        makes_a_missing_checkpoint_anew: FaultyHarness::new(checkpoints::MakesAMissingCheckpointAnew);
        ignores_the_life_of_the_server: FaultyHarness::new(checkpoints::IgnoresTheLifeOfTheServer);
        pauses_nobody: FaultyHarness::new(checkpoints::PausesNobody);
        ends_a_pause_with_the_term: FaultyHarness::new(checkpoints::EndsAPauseWithTheTerm);
        tells_of_checkpoints_that_are_not_stored: FaultyHarness::new(checkpoints::TellsOfCheckpointsThatAreNotStored);
        settles_too_much: FaultyHarness::new(checkpoints::SettlesTooMuch);
        counts_what_is_settled_as_head: DrawnHarness(Some(Flaw::CountsWhatIsSettledAsHead));
        names_nobody_who_holds_readers_back: DrawnHarness(Some(Flaw::HidesOpenWriters));
        loses_reports: FaultyHarness::new(checkpoints::LosesReports);
        believes_former_leaders: FaultyHarness::new(checkpoints::BelievesFormerLeaders::default());
        leaves_out_what_comes_with_a_late_report: FaultyHarness::new(checkpoints::LeavesOutWhatComesWithALateReport);
        reports_no_errors: FaultyHarness::new(checkpoints::Reports(|report| report.last_error = None));
        reports_another_term: FaultyHarness::new(checkpoints::Reports(|report| report.term += 1));

        // Transactions.
        fences_no_transaction: FaultyHarness::new(transactions::FencesNoTransaction);
        begins_with_what_it_remembers: FaultyHarness::new(transactions::BeginsWithWhatItRemembers::default());
        begins_without_a_lock: FaultyHarness::new(transactions::BeginsWithoutALock);
        commits_for_anybody: FaultyHarness::new(transactions::Commits(transactions::for_anybody));
        commits_from_anywhere: FaultyHarness::new(transactions::CommitsFromAnywhere);
        commits_at_once: FaultyHarness::new(transactions::CommitsAtOnce);
        commits_the_checkpoint_alone: FaultyHarness::new(transactions::CommitsTheCheckpointAlone);
        commits_the_read_model_alone: FaultyHarness::new(transactions::Commits(transactions::read_model_alone));
        commits_what_is_rolled_back: FaultyHarness::new(transactions::CommitsWhatIsRolledBack);
        says_that_it_has_committed: FaultyHarness::new(transactions::SaysThatItHasCommitted);
        buries_without_the_checkpoint: FaultyHarness::new(transactions::BuriesWithoutTheCheckpoint);
        buries_without_a_letter: FaultyHarness::new(transactions::Commits(transactions::no_letter));
        resets_without_a_new_term: FaultyHarness::new(transactions::ResetsWithoutANewTerm);
        resets_without_archiving: FaultyHarness::new(transactions::ResetsWithoutArchiving);
        archives_everything: FaultyHarness::new(transactions::ArchivesEverything);

        // Leadership.
        lets_everybody_lead: FaultyHarness::new(leadership::Candidates(|| leadership::LetsEverybodyLead));
        lets_who_leads_lead_again: FaultyHarness::new(leadership::Candidates(leadership::LetsWhoLeadsLeadAgain::default));
        lets_nobody_lead_who_waits: FaultyHarness::new(leadership::Candidates(|| leadership::LetsNobodyLeadWhoWaits));
        waits_where_it_should_try: FaultyHarness::new(leadership::Candidates(|| leadership::WaitsWhereItShouldTry));
        tells_names_apart_without_regard_to_case:
            FaultyHarness::new(leadership::Candidates(|| leadership::TellsNamesApartBy(str::to_lowercase)));
        tells_names_apart_by_their_beginning:
            FaultyHarness::new(leadership::Candidates(|| leadership::TellsNamesApartBy(leadership::beginning)));
        has_one_lock_for_all: FaultyHarness::new(leadership::Candidates(|| leadership::TellsNamesApartBy(|_| "all".into())));
        leads_nothing_with_a_long_name: FaultyHarness::new(leadership::Candidates(|| leadership::LeadsNothingWithALongName));
        keeps_what_is_dropped: FaultyHarness::new(leadership::Holds::new(leadership::KeepsWhatIsDropped));
        keeps_what_is_released: FaultyHarness::new(leadership::Holds::new(leadership::KeepsWhatIsReleased));
        releases_later: FaultyHarness::new(leadership::Holds::new(leadership::ReleasesLater));
        keeps_what_is_given_up: FaultyHarness::new(leadership::Candidates(|| leadership::KeepsWhatIsGivenUp));
        keeps_everything_when_closed: FaultyHarness::new(leadership::Candidates(|| leadership::KeepsEverythingWhenClosed));
        leads_on_when_closed: FaultyHarness::new(leadership::LeadsOnWhenClosed);
        never_says_that_it_is_lost: FaultyHarness::new(leadership::Holds::new(leadership::NeverSaysThatItIsLost::default()));
        says_that_it_is_held_for_ever: FaultyHarness::new(leadership::Holds::new(leadership::SaysThatItIsHeldForEver));
        takes_over_from_where_it_began_to_wait: FaultyHarness::new(leadership::TakesOverFromWhereItBeganToWait::default());
        says_that_everybody_leads: FaultyHarness::new(leadership::Tells(|leader| leader.hold = LeaderHold::Held));
        says_that_everybody_is_gone: FaultyHarness::new(leadership::Tells(|leader| leader.hold = LeaderHold::Gone));
        names_another_leader: FaultyHarness::new(leadership::Tells(|leader| leader.instance = Instance::here(None)));
        forgets_terms_of_leaders: FaultyHarness::new(leadership::Tells(|leader| leader.term = 0));
        sees_no_other_instance: FaultyHarness::new(leadership::Sees(leadership::nobody_else));
        sees_no_labels: FaultyHarness::new(leadership::Sees(leadership::no_labels));
        sees_nothing_that_is_led: FaultyHarness::new(leadership::Sees(leadership::nothing_led));
        sees_no_locks: FaultyHarness::new(leadership::SeesNoLocks);
        sees_locks_everywhere: FaultyHarness::new(leadership::SeesLocksEverywhere);
        leads_for_a_while: FaultyHarness::new(leadership::Holds::new(leadership::LeadsForAWhile));

        // Dead letters.
        opens_no_letter_again: FaultyHarness::new(letters::OpensNoLetterAgain);
        shows_letters_of_all_streams: FaultyHarness::new(letters::Asks(letters::of_all_streams));
        shows_letters_of_all_types: FaultyHarness::new(letters::Asks(letters::of_all_types));
        shows_letters_of_everybody: FaultyHarness::new(letters::Asks(letters::of_everybody));
        shows_the_first_page_again: FaultyHarness::new(letters::Asks(letters::first_page));
        shows_letters_in_any_state: FaultyHarness::new(letters::Asks(letters::in_any_state));
        shows_no_payload: FaultyHarness::new(letters::Shows(|detail| detail.record = None));
        forgets_attempts: FaultyHarness::new(letters::Shows(|detail| detail.attempts.clear()));
        counts_no_replays: FaultyHarness::new(transactions::Commits(transactions::no_failed_replay));
        forgets_who_asked: FaultyHarness::new(transactions::Commits(transactions::nobody_asked));
        finishes_nothing: FaultyHarness::new(transactions::Commits(transactions::nothing_finished));
        loses_requests: FaultyHarness::new(letters::LosesRequests);
        knows_no_parked_streams: FaultyHarness::new(letters::KnowsNoParkedStreams);
        counts_nothing_as_parked: FaultyHarness::new(letters::CountsNothingAsParked);

        // Being filled.
        fills_in_no_metadata: FaultyHarness::new(transfer::Fills::records(transfer::without_metadata));
        closes_holes: FaultyHarness::new(transfer::Fills::records(transfer::without_holes));
        fills_in_half_a_batch: FaultyHarness::new(transfer::Fills::records(transfer::half));
        fills_in_no_pauses: FaultyHarness::new(transfer::Fills::checkpoints(transfer::not_paused));
        fills_in_no_last_events: FaultyHarness::new(transfer::Fills::checkpoints(transfer::without_events));
        fills_in_no_attempts: FaultyHarness::new(transfer::Fills::letters(transfer::without_attempts));
        fills_in_open_letters_alone: FaultyHarness::new(transfer::Fills::letters(transfer::open_ones));
        fills_in_no_requests: FaultyHarness::new(transfer::Fills::requests(Vec::clear));
        fills_in_anything: FaultyHarness::new(transfer::FillsInAnything);
        fills_whatever_it_holds: FaultyHarness::new(transfer::FillsWhateverItHolds);
        stays_locked_when_filled: FaultyHarness::new(transfer::StaysLockedWhenFilled);
        starts_fillings_again: FaultyHarness::new(transfer::StartsFillingsAgain);
        goes_on_from_anywhere: FaultyHarness::new(transfer::GoesOnFromAnywhere);
        keeps_what_was_told_before: FaultyHarness::new(transfer::KeepsWhatWasToldBefore);
        fills_without_a_lock: FaultyHarness::new(transfer::FillsWithoutALock);
        unlocks_when_interrupted: FaultyHarness::new(transfer::UnlocksWhenInterrupted);
        lets_two_fill: FaultyHarness::new(transfer::LetsTwoFill);
        abandons_nothing: FaultyHarness::new(transfer::AbandonsNothing);
        abandons_the_lock_alone: FaultyHarness::new(transfer::AbandonsTheLockAlone);
        hides_its_filling: FaultyHarness::new(transfer::HidesItsFilling);
        calls_half_a_copy_healthy: FaultyHarness::new(transfer::CallsHalfACopyHealthy);
    }
}

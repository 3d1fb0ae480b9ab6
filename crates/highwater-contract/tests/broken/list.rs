//! The list of broken backends: which promise each breaks, and which case has to notice.

use highwater::ExpectedVersion;
use highwater::backend::{Instance, LeaderHold};

use crate::drawn::{DrawnHarness, Flaw};
use crate::faults::{
    appending, calling, checkpoints, dead_letters, diagnose, input, keeping, leadership, naming, reading, removing,
    repeating, setting_up, transactions, transfer, upcasting, wakeups,
};
use crate::faulty::FaultyHarness;
use crate::{Broken, Part, assert_rejected};

/// One test for each broken backend, and the list of them.
macro_rules! broken {
    ($($part:ident { $(
        $name:ident: $harness:expr,
            breaks $breaks:literal, caught by $($case:ident),+;
    )* })*) => {
        $($(
            #[test]
            fn $name() {
                assert_rejected(stringify!($name), || $harness);
            }
        )*)*

        pub(crate) const BROKEN: &[Broken] = &[$($(
            Broken {
                name: stringify!($name),
                part: Part::$part,
                breaks: $breaks,
                caught_by: &[$(stringify!($case)),+],
            },
        )*)*];
    };
}

broken! {
    Log {
        // Appending.
        stores_event_by_event: FaultyHarness::new(appending::StoresEventByEvent),
            breaks 1, caught by a_conflict_in_any_stream_stores_nothing_in_all_of_them;
        stores_the_first_hundred_events: FaultyHarness::new(appending::StoresTheFirstHundredEvents),
            breaks 1, caught by a_large_append_is_stored_whole;
        ignores_expectations: FaultyHarness::new(appending::Expects(|_| ExpectedVersion::Any)),
            breaks 2, caught by no_stream_accepts_only_a_new_stream, exact_accepts_only_that_version;
        does_not_check_that_a_stream_exists: FaultyHarness::new(appending::Expects(|expected| match expected {
            ExpectedVersion::StreamExists => ExpectedVersion::Any,
            other => other,
        })),
            breaks 2, caught by stream_exists_accepts_only_an_existing_stream;
        expects_the_same_of_all_streams: FaultyHarness::new(appending::ExpectsTheSameOfAllStreams),
            breaks 2, caught by each_stream_of_an_append_has_its_own_expectation;
        accepts_versions_that_have_passed: FaultyHarness::new(appending::AcceptsVersionsThatHavePassed),
            breaks 2, caught by exact_accepts_only_that_version;
        does_not_say_where_the_stream_is: FaultyHarness::new(appending::DoesNotSayWhereTheStreamIs),
            breaks 2, caught by exact_accepts_only_that_version;
        checks_and_then_acts: FaultyHarness::new(appending::ChecksAndThenActs),
            breaks 2, caught by of_racers_for_one_version_exactly_one_wins;
        leaves_holes_in_versions: FaultyHarness::new(appending::LeavesHolesInVersions),
            breaks 3, caught by versions_have_no_holes;
        numbers_backwards: FaultyHarness::new(appending::NumbersBackwards),
            breaks 5, caught by the_events_of_an_append_are_numbered_in_its_order;
        numbers_stream_by_stream: FaultyHarness::new(appending::NumbersStreamByStream),
            breaks 5, caught by the_events_of_an_append_are_numbered_in_its_order;

        // Appending twice.
        checks_versions_before_ids: FaultyHarness::new(repeating::ChecksVersionsBeforeIds),
            breaks 4, caught by ids_are_checked_before_versions;
        forgets_ids: FaultyHarness::new(repeating::ForgetsIds),
            breaks 4, caught by an_append_sent_again_returns_its_first_places;
        completes_what_is_partly_stored: FaultyHarness::new(repeating::CompletesWhatIsPartlyStored),
            breaks 4, caught by a_mixture_of_known_and_new_ids_is_refused;
        trusts_ids_alone: FaultyHarness::new(repeating::TrustsIdsAlone),
            breaks 4, caught by an_id_of_another_event_is_refused;
        repeats_with_other_places: FaultyHarness::new(repeating::RepeatsWithOtherPlaces),
            breaks 4, caught by an_append_sent_again_after_others_is_still_known;
        never_says_that_it_repeats: FaultyHarness::new(repeating::AlwaysSaysThatItRepeats(false)),
            breaks 4, caught by an_append_sent_again_returns_its_first_places;
        always_says_that_it_repeats: FaultyHarness::new(repeating::AlwaysSaysThatItRepeats(true)),
            breaks 4, caught by an_append_returns_the_place_of_each_event, what_was_refused_may_be_sent_again;

        // Numbers that are drawn before the commit.
        reads_naively: DrawnHarness(Some(Flaw::ReadsNaively)),
            breaks 6, caught by a_late_commit_is_not_skipped;
        settles_only_unfiltered_reads: DrawnHarness(Some(Flaw::SettlesOnlyUnfilteredReads)),
            breaks 6, caught by a_late_commit_is_not_skipped_by_a_filter;
        gives_up_on_slow_commits: DrawnHarness(Some(Flaw::GivesUpOnSlowCommits)),
            breaks 6, caught by a_slow_commit_is_not_given_up;
        shows_what_is_open: DrawnHarness(Some(Flaw::ShowsWhatIsOpen)),
            breaks 6, caught by what_is_open_is_not_seen;
        hides_open_writers: DrawnHarness(Some(Flaw::HidesOpenWriters)),
            breaks 6, caught by a_writer_that_holds_readers_back_is_named;
        counts_open_numbers_as_head: DrawnHarness(Some(Flaw::CountsOpenNumbersAsHead)),
            breaks 6, caught by the_head_is_the_last_committed_event;
        draws_too_early: DrawnHarness(Some(Flaw::DrawsTooEarly)),
            breaks 5, caught by many_writers_share_streams_without_a_hole;
        skips_versions_on_rollback: DrawnHarness(Some(Flaw::SkipsVersionsOnRollback)),
            breaks 3, caught by versions_have_no_holes;
        forgets_to_roll_back: DrawnHarness(Some(Flaw::ForgetsToRollBack)),
            breaks 6, caught by a_rollback_holds_nobody_back;

        // Reading.
        resumes_inclusively: FaultyHarness::new(reading::ResumesInclusively),
            breaks 7, caught by reading_resumes_after_a_position;
        drops_the_last_of_a_page: FaultyHarness::new(reading::DropsTheLastOfAPage),
            breaks 7, caught by pages_of_any_size_hold_each_event_once;
        ends_streams_with_the_page: FaultyHarness::new(reading::EndsStreamsWithThePage),
            breaks 7, caught by the_end_of_a_stream_is_said_where_it_is;
        filters_after_the_limit: FaultyHarness::new(reading::FiltersAfterTheLimit),
            breaks 8, caught by a_rare_type_is_found_behind_many_others;
        filters_streams_after_the_limit: FaultyHarness::new(reading::FiltersStreamsAfterTheLimit),
            breaks 8, caught by a_stream_is_filtered_before_it_is_limited;
        ends_with_the_stream_alone: FaultyHarness::new(reading::EndsWithTheStreamAlone),
            breaks 8, caught by the_end_of_what_was_asked_for_is_said_where_it_is;
        begins_a_stream_at_the_place: FaultyHarness::new(reading::BeginsAStreamAtThePlace),
            breaks 7, caught by a_stream_is_read_from_any_place_in_the_log;
        stands_still_when_nothing_matches: FaultyHarness::new(reading::StandsStillWhenNothingMatches),
            breaks 8, caught by the_position_moves_on_past_what_is_not_wanted;
        filters_without_regard_to_case: FaultyHarness::new(reading::FiltersWithoutRegardToCase),
            breaks 8, caught by types_are_matched_whole_and_to_the_letter;
        names_only_the_first_event: FaultyHarness::new(reading::Shows(naming::only_the_first_named)),
            breaks 39, caught by a_stream_keeps_the_name_that_its_first_event_brought;
        names_no_stream_later: FaultyHarness::new(reading::Shows(naming::never_named_later)),
            breaks 39, caught by a_stream_that_began_without_a_name_gets_one_later;
        lists_the_first_page_again: FaultyHarness::new(naming::ListsTheFirstPageAgain),
            breaks 39, caught by streams_are_listed_by_name;
        takes_kinds_for_prefixes: FaultyHarness::new(naming::TakesKindsForPrefixes),
            breaks 39, caught by events_are_filtered_by_the_kinds_of_their_streams;
        ignores_kinds: FaultyHarness::new(naming::IgnoresKinds),
            breaks 39, caught by events_are_filtered_by_the_kinds_of_their_streams;
        writes_json_anew: FaultyHarness::new(reading::Shows(reading::json_written_anew)),
            breaks 9, caught by json_comes_back_to_the_byte;
        drops_metadata: FaultyHarness::new(reading::Shows(reading::no_metadata)),
            breaks 9, caught by every_field_is_read_as_it_was_written;
        keeps_whole_seconds: FaultyHarness::new(reading::Shows(reading::whole_seconds)),
            breaks 9, caught by times_come_back_to_the_microsecond;
        trims_event_types: FaultyHarness::new(reading::Shows(reading::types_without_space)),
            breaks 9, caught by event_types_come_back_as_they_are;
        refuses_more_than_a_notification_holds: FaultyHarness::new(reading::RefusesMoreThanANotificationHolds),
            breaks 9, caught by events_far_over_eight_thousand_bytes_come_back;
        shows_no_sequence_backwards: FaultyHarness::new(reading::ShowsNoSequenceBackwards),
            breaks 9, caught by every_way_of_reading_agrees;
        reads_backwards_across_streams: FaultyHarness::new(reading::ReadsBackwardsAcrossStreams),
            breaks 10, caught by streams_do_not_see_each_other;
        panics_on_a_missing_stream: FaultyHarness::new(reading::PanicsOnAMissingStream),
            breaks 10, caught by a_stream_that_does_not_exist_is_empty;
        overflows_at_the_largest_version: FaultyHarness::new(reading::OverflowsAtTheLargestVersion),
            breaks 10, caught by positions_beyond_the_end_read_as_nothing;

        // Bad input.
        stores_null_for_bad_input: FaultyHarness::new(input::StoresNullForBadInput),
            breaks 11, caught by one_bad_event_keeps_the_whole_append_out;
        keeps_a_trace_of_bad_input: FaultyHarness::new(input::KeepsATraceOfBadInput),
            breaks 11, caught by bad_input_is_refused_whatever_the_log_holds;
        says_that_bad_input_is_unavailable: FaultyHarness::new(input::SaysThatBadInputIsUnavailable),
            breaks 11, caught by bad_input_is_refused_whatever_the_log_holds;
        knows_no_limits: FaultyHarness::new(input::KnowsNoLimits),
            breaks 11, caught by what_is_over_a_limit_is_refused, what_is_too_large_is_refused_by_default;

        // Looking at itself.
        calls_what_is_healthy_bad: FaultyHarness::new(diagnose::CallsWhatIsHealthyBad),
            breaks 36, caught by a_healthy_store_has_nothing_bad_about_it_and_nothing_planned;
        plans_for_ever: FaultyHarness::new(diagnose::PlansForEver),
            breaks 36, caught by a_healthy_store_has_nothing_bad_about_it_and_nothing_planned;
        gives_no_advice: FaultyHarness::new(diagnose::GivesNoAdvice),
            breaks 36, caught by what_is_not_good_says_what_to_do;
        tells_in_any_order: FaultyHarness::new(diagnose::TellsInAnyOrder::default()),
            breaks 36, caught by what_is_not_good_says_what_to_do;
        leaves_a_trace_of_looking: FaultyHarness::new(diagnose::LeavesATraceOfLooking),
            breaks 36, caught by looking_changes_nothing_and_waits_for_nobody;

        // Waking up.
        never_wakes: FaultyHarness::new(wakeups::NeverWakes::default()),
            breaks 12, caught by an_append_wakes_everybody_who_waits;
        wakes_without_a_number: FaultyHarness::new(wakeups::Hints::new(|known, _| *known = 0)),
            breaks 12, caught by an_append_wakes_everybody_who_waits;
        wakes_with_the_latest_number_instead_of_the_highest:
            FaultyHarness::new(wakeups::Hints::new(|known, announced| *known = announced)),
            breaks 12, caught by an_announcement_wakes_everybody_who_waits;
        wakes_before_the_commit: FaultyHarness::new(wakeups::WakesBeforeTheCommit),
            breaks 12, caught by a_hint_never_runs_ahead_of_the_log;
        wakes_for_what_is_refused: FaultyHarness::new(wakeups::WakesForWhatIsRefused),
            breaks 12, caught by a_refused_append_wakes_nobody;
        wakes_for_what_is_open: FaultyHarness::new(wakeups::WakesForWhatIsOpen),
            breaks 12, caught by what_is_not_committed_wakes_nobody;

        // Upcasting.
        has_no_upcasters: FaultyHarness::new(upcasting::HasNoUpcasters::default()),
            breaks 13, caught by old_events_are_read_as_new_ones_everywhere;
        filters_by_the_names_of_today: FaultyHarness::new(upcasting::FiltersByTheNamesOfToday),
            breaks 13, caught by a_filter_finds_events_under_their_former_names;
        stores_schema_version_one: FaultyHarness::new(upcasting::StoresSchemaVersionOne),
            breaks 13, caught by new_events_are_stored_with_the_current_schema_version;
        takes_the_last_version_for_the_newest: FaultyHarness::new(upcasting::TakesTheLastVersionForTheNewest),
            breaks 13, caught by the_newest_schema_version_of_a_type_is_known;

        // Callers.
        fails_as_a_group: FaultyHarness::new(calling::FailsAsAGroup::default()),
            breaks 14, caught by a_mistake_concerns_its_caller_alone;
        stores_on_the_way: FaultyHarness::new(calling::StoresOnTheWay),
            breaks 14, caught by a_call_that_is_given_up_is_stored_whole_or_not_at_all;
        stays_locked_when_given_up: FaultyHarness::new(calling::StaysLockedWhenGivenUp::default()),
            breaks 14, caught by many_calls_given_up_leave_the_store_usable;
        stores_twice_when_given_up: FaultyHarness::new(calling::StoresTwiceWhenGivenUp),
            breaks 14, caught by a_call_that_is_given_up_is_stored_whole_or_not_at_all;
        locks_streams_in_turn: DrawnHarness(Some(Flaw::LocksStreamsInTurn)),
            breaks 14, caught by opposite_orders_of_the_same_streams_all_come_through;
        locks_everything: DrawnHarness(Some(Flaw::LocksEverything)),
            breaks 14, caught by a_stream_held_open_delays_nobody_else;

        // Keeping.
        loses_everything_on_reopen: FaultyHarness::new(keeping::LosesEverythingOnReopen),
            breaks 15, caught by a_log_that_is_opened_again_holds_everything;
        loses_the_last_append_on_reopen: FaultyHarness::new(keeping::LosesTheLastAppendOnReopen::default()),
            breaks 15, caught by a_log_that_is_opened_again_holds_everything;
        sees_nothing_of_other_handles: FaultyHarness::new(keeping::SeesNothingOfOtherHandles),
            breaks 15, caught by an_acknowledged_append_is_there_at_once;
    }

    Delivery {
        // Checkpoints.
        shares_checkpoints: FaultyHarness::new(checkpoints::SharesCheckpoints),
            breaks 16, caught by checkpoints_are_independent;
        starts_everybody_at_zero: FaultyHarness::new(checkpoints::StartsEverybodyAtZero),
            breaks 16, caught by taking_over_stores_the_start;
        starts_at_an_end_that_is_gone: FaultyHarness::new(checkpoints::StartsAtAnEndThatIsGone),
            breaks 16, caught by a_subscriber_does_not_start_at_an_end_that_is_gone;
        takes_a_missing_checkpoint_for_zero: FaultyHarness::new(checkpoints::TakesAMissingCheckpointForZero),
            breaks 16, caught by a_new_subscriber_has_no_checkpoint;
        moves_checkpoints_back: FaultyHarness::new(checkpoints::MovesCheckpointsBack),
            breaks 16, caught by a_checkpoint_never_moves_back;
        loses_checkpoints: FaultyHarness::new(checkpoints::LosesCheckpoints),
            breaks 19, caught by progress_is_stored_batch_by_batch,
                a_checkpoint_is_stored_in_time_however_many_events_wait;
        stores_checkpoints_too_far: FaultyHarness::new(checkpoints::StoresCheckpointsTooFar),
            breaks 21, caught by after_a_crash_one_event_comes_again_at_most;
        forgets_checkpoints_on_reopen: FaultyHarness::new(keeping::SeesNothingOfOtherHandles),
            breaks 16, caught by checkpoints_are_there_when_a_log_is_opened_again;
        gives_the_same_term_twice: FaultyHarness::new(checkpoints::GivesTheSameTermTwice),
            breaks 17, caught by terms_only_grow;
        does_not_fence_checkpoints: FaultyHarness::new(checkpoints::DoesNotFenceCheckpoints),
            breaks 17, caught by an_older_term_writes_nothing;
        makes_a_missing_checkpoint_anew: FaultyHarness::new(checkpoints::MakesAMissingCheckpointAnew),
            breaks 17, caught by a_missing_checkpoint_is_fenced;
        ignores_the_life_of_the_server: FaultyHarness::new(checkpoints::IgnoresTheLifeOfTheServer),
            breaks 17, caught by positions_of_another_life_write_nothing;
        pauses_nobody: FaultyHarness::new(checkpoints::PausesNobody),
            breaks 25, caught by pauses_are_kept, a_pause_lasts_until_it_is_ended;
        ends_a_pause_with_the_term: FaultyHarness::new(checkpoints::EndsAPauseWithTheTerm),
            breaks 25, caught by pauses_are_kept;
        tells_of_checkpoints_that_are_not_stored: FaultyHarness::new(checkpoints::TellsOfCheckpointsThatAreNotStored),
            breaks 26, caught by a_caller_that_waits_in_vain_is_told_how_far_it_is;
        settles_too_much: FaultyHarness::new(checkpoints::SettlesTooMuch),
            breaks 26, caught by caught_up_means_that_everything_is_handled;
        counts_what_is_settled_as_head: DrawnHarness(Some(Flaw::CountsWhatIsSettledAsHead)),
            breaks 26, caught by lag_counts_against_what_is_committed;
        names_nobody_who_holds_readers_back: DrawnHarness(Some(Flaw::HidesOpenWriters)),
            breaks 26, caught by health_names_who_holds_readers_back_at_once;
        hides_events_from_views: FaultyHarness::new(reading::HidesTheSecondOfAPage),
            breaks 37, caught by a_view_has_everything_on_every_instance, a_view_starts_from_a_snapshot_of_this_log,
            a_view_waits_while_the_store_does_not_answer, a_view_of_a_replaced_server_is_folded_anew;
        forgets_names_on_the_way_to_subscribers: FaultyHarness::new(reading::Shows(naming::only_the_first_named)),
            breaks 39, caught by a_subscriber_gets_the_kinds_it_wants_and_moves_on,
            a_view_of_some_kinds_leaves_out_the_rest;
        shows_views_what_comes_after_open_writers: DrawnHarness(Some(Flaw::ReadsNaively)),
            breaks 37, caught by a_view_leaves_out_nothing_that_is_committed_late;
        loses_reports: FaultyHarness::new(checkpoints::LosesReports),
            breaks 32, caught by reports_come_back_as_they_were_made;
        believes_former_leaders: FaultyHarness::new(checkpoints::BelievesFormerLeaders::default()),
            breaks 32, caught by a_former_leader_says_nothing_any_more;
        leaves_out_what_comes_with_a_late_report: FaultyHarness::new(checkpoints::LeavesOutWhatComesWithALateReport),
            breaks 32, caught by a_former_leader_says_nothing_any_more;
        reports_no_errors: FaultyHarness::new(checkpoints::Reports(|report| report.last_error = None)),
            breaks 32, caught by reports_come_back_as_they_were_made;
        reports_another_term: FaultyHarness::new(checkpoints::Reports(|report| report.term += 1)),
            breaks 32, caught by reports_come_back_as_they_were_made;

        // Transactions.
        fences_no_transaction: FaultyHarness::new(transactions::FencesNoTransaction),
            breaks 17, caught by an_older_term_writes_nothing;
        begins_with_what_it_remembers: FaultyHarness::new(transactions::BeginsWithWhatItRemembers::default()),
            breaks 18, caught by beginning_tells_what_is_true;
        begins_without_a_lock: FaultyHarness::new(transactions::BeginsWithoutALock),
            breaks 18, caught by transactions_of_one_subscriber_exclude_each_other;
        commits_for_anybody: FaultyHarness::new(transactions::Commits(transactions::for_anybody)),
            breaks 17, caught by a_foreign_term_commits_nothing;
        commits_from_anywhere: FaultyHarness::new(transactions::CommitsFromAnywhere),
            breaks 18, caught by a_closing_that_starts_elsewhere_is_refused;
        commits_at_once: FaultyHarness::new(transactions::CommitsAtOnce),
            breaks 20, caught by what_a_failed_handler_wrote_is_taken_back;
        commits_the_checkpoint_alone: FaultyHarness::new(transactions::CommitsTheCheckpointAlone),
            breaks 20, caught by after_a_crash_in_a_transaction_nothing_counts_twice;
        commits_the_read_model_alone: FaultyHarness::new(transactions::Commits(transactions::read_model_alone)),
            breaks 18, caught by what_is_written_comes_with_the_checkpoint;
        commits_what_is_rolled_back: FaultyHarness::new(transactions::CommitsWhatIsRolledBack),
            breaks 20, caught by what_a_failed_handler_wrote_is_taken_back;
        says_that_it_has_committed: FaultyHarness::new(transactions::SaysThatItHasCommitted),
            breaks 18, caught by what_cannot_be_committed_is_said_and_leaves_nothing;
        buries_without_the_checkpoint: FaultyHarness::new(transactions::BuriesWithoutTheCheckpoint),
            breaks 22, caught by a_dead_letter_and_its_checkpoint_are_one;
        buries_without_a_dead_letter: FaultyHarness::new(transactions::Commits(transactions::no_dead_letter)),
            breaks 21, caught by the_checkpoint_stays_until_the_dead_letter_is_written,
                a_dead_letter_keeps_nobody_from_the_end_of_the_log;
        resets_without_a_new_term: FaultyHarness::new(transactions::ResetsWithoutANewTerm),
            breaks 27, caught by a_reset_is_one_with_what_it_empties;
        resets_without_archiving: FaultyHarness::new(transactions::ResetsWithoutArchiving),
            breaks 27, caught by a_rebuild_archives_the_dead_letters;
        archives_everything: FaultyHarness::new(transactions::ArchivesEverything),
            breaks 33, caught by a_reset_leaves_the_dead_letters_before_it;
        sets_back_what_is_removed: FaultyHarness::new(removing::SetsBackWhatIsRemoved),
            breaks 33, caught by a_removal_is_one_with_everything_that_is_stored,
                a_subscriber_that_is_gone_is_removed_and_starts_anew, no_subscriber_is_removed_under_a_leader;
        leaves_requests_of_what_is_removed: FaultyHarness::new(removing::LeavesRequests),
            breaks 33, caught by a_removal_is_one_with_everything_that_is_stored;
        names_terms_by_itself: FaultyHarness::new(removing::NamesTermsByItself),
            breaks 32, caught by a_lease_is_shown_as_one_and_not_as_a_subscriber, leases_are_no_part_of_a_copy;
        stores_no_position_of_a_lease: FaultyHarness::new(removing::StoresNoPositionOfALease),
            breaks 16, caught by a_lease_that_stores_a_position_is_a_subscriber;

        // Setting up.
        forgets_versions: FaultyHarness::new(setting_up::ForgetsVersions),
            breaks 38, caught by a_version_is_one_with_what_was_made, tables_are_set_up_once_before_the_first_event,
            a_version_belongs_to_the_tables_that_are_there, who_waits_finds_the_tables;
        stores_versions_alone: FaultyHarness::new(setting_up::StoresVersionsAlone),
            breaks 38, caught by a_version_is_one_with_what_was_made, of_instances_that_start_at_once_one_sets_up;
        resets_without_the_version: FaultyHarness::new(setting_up::ResetsWithoutTheVersion),
            breaks 38, caught by tables_of_another_version_halt_until_they_are_rebuilt,
            tables_of_another_version_are_rebuilt_where_that_is_chosen;
        takes_over_without_the_version: FaultyHarness::new(setting_up::TakesOverWith(|_| None)),
            breaks 38, caught by tables_are_set_up_once_before_the_first_event,
            tables_of_another_version_halt_until_they_are_rebuilt, an_older_instance_leaves_the_subscriber_to_newer_ones;
        says_that_tables_are_there: FaultyHarness::new(setting_up::TakesOverWith(|found| found.or(Some(1)))),
            breaks 38, caught by tables_are_set_up_once_before_the_first_event,
            a_setup_that_fails_is_retried_and_skips_nothing, tables_that_would_lack_events_are_not_made,
            who_stands_by_learns_that_the_leader_has_halted, a_rebuild_may_be_requested_before_the_code_is_there;
        shows_no_versions: FaultyHarness::new(setting_up::ShowsNoVersions),
            breaks 38, caught by a_setup_whose_answer_is_lost_is_not_done_twice, an_older_instance_stops_no_newer_one;
        remembers_versions: FaultyHarness::new(setting_up::RemembersVersions::default()),
            breaks 38, caught by a_version_belongs_to_the_tables_that_are_there;

        // Leadership.
        lets_everybody_lead: FaultyHarness::new(leadership::Candidates(|| leadership::LetsEverybodyLead)),
            breaks 28, caught by of_fifty_who_try_at_once_one_leads, one_instance_processes_and_the_others_stand_by;
        lets_who_leads_lead_again:
            FaultyHarness::new(leadership::Candidates(leadership::LetsWhoLeadsLeadAgain::default)),
            breaks 28, caught by who_leads_cannot_lead_twice;
        lets_nobody_lead_who_waits: FaultyHarness::new(leadership::Candidates(|| leadership::LetsNobodyLeadWhoWaits)),
            breaks 28, caught by who_waits_leads_as_soon_as_it_is_free;
        waits_where_it_should_try: FaultyHarness::new(leadership::Candidates(|| leadership::WaitsWhereItShouldTry)),
            breaks 28, caught by of_fifty_who_try_at_once_one_leads;
        tells_names_apart_without_regard_to_case:
            FaultyHarness::new(leadership::Candidates(|| leadership::TellsNamesApartBy(str::to_lowercase))),
            breaks 28, caught by names_are_led_independently;
        tells_names_apart_by_their_beginning:
            FaultyHarness::new(leadership::Candidates(|| leadership::TellsNamesApartBy(leadership::beginning))),
            breaks 28, caught by names_that_cannot_be_led_are_refused;
        has_one_lock_for_all:
            FaultyHarness::new(leadership::Candidates(|| leadership::TellsNamesApartBy(|_| "all".into()))),
            breaks 28, caught by names_are_led_independently;
        leads_nothing_with_a_long_name:
            FaultyHarness::new(leadership::Candidates(|| leadership::LeadsNothingWithALongName)),
            breaks 28, caught by names_that_cannot_be_led_are_refused;
        keeps_what_is_dropped: FaultyHarness::new(leadership::Holds::new(leadership::KeepsWhatIsDropped)),
            breaks 29, caught by an_instance_that_goes_lets_others_lead;
        keeps_what_is_released: FaultyHarness::new(leadership::Holds::new(leadership::KeepsWhatIsReleased)),
            breaks 29, caught by a_release_is_done_when_it_returns;
        releases_later: FaultyHarness::new(leadership::Holds::new(leadership::ReleasesLater)),
            breaks 29, caught by a_release_is_done_when_it_returns;
        keeps_what_is_given_up: FaultyHarness::new(leadership::Candidates(|| leadership::KeepsWhatIsGivenUp)),
            breaks 29, caught by a_claim_that_is_given_up_leaves_nothing;
        keeps_everything_when_closed:
            FaultyHarness::new(leadership::Candidates(|| leadership::KeepsEverythingWhenClosed)),
            breaks 29, caught by closing_releases_everything;
        leads_on_when_closed: FaultyHarness::new(leadership::LeadsOnWhenClosed),
            breaks 29, caught by closing_releases_everything;
        never_says_that_it_is_lost:
            FaultyHarness::new(leadership::Holds::new(leadership::NeverSaysThatItIsLost::default())),
            breaks 29, caught by closing_releases_everything;
        says_that_it_is_held_for_ever: FaultyHarness::new(leadership::Holds::new(leadership::SaysThatItIsHeldForEver)),
            breaks 30, caught by a_leader_that_has_lost_leadership_handles_nothing_more;
        takes_over_from_where_it_began_to_wait:
            FaultyHarness::new(leadership::TakesOverFromWhereItBeganToWait::default()),
            breaks 30, caught by a_new_leader_resumes_from_what_is_stored;
        says_that_everybody_leads: FaultyHarness::new(leadership::Tells(|leader| leader.hold = LeaderHold::Held)),
            breaks 30, caught by it_is_told_who_leads;
        says_that_everybody_is_gone: FaultyHarness::new(leadership::Tells(|leader| leader.hold = LeaderHold::Gone)),
            breaks 30, caught by it_is_told_who_leads;
        names_another_leader: FaultyHarness::new(leadership::Tells(|leader| leader.instance = Instance::here(None))),
            breaks 30, caught by it_is_told_who_leads;
        forgets_terms_of_leaders: FaultyHarness::new(leadership::Tells(|leader| leader.term = 0)),
            breaks 30, caught by it_is_told_who_leads;
        sees_no_other_instance: FaultyHarness::new(leadership::Sees(leadership::nobody_else)),
            breaks 31, caught by the_work_is_spread;
        sees_no_labels: FaultyHarness::new(leadership::Sees(leadership::no_labels)),
            breaks 31, caught by subscribers_go_where_they_prefer_to_be;
        sees_nothing_that_is_led: FaultyHarness::new(leadership::Sees(leadership::nothing_led)),
            breaks 31, caught by the_work_is_spread;
        sees_no_locks: FaultyHarness::new(leadership::SeesNoLocks),
            breaks 30, caught by it_is_told_who_has_a_lock_whether_it_leads_or_not;
        sees_locks_everywhere: FaultyHarness::new(leadership::SeesLocksEverywhere),
            breaks 30, caught by it_is_told_who_has_a_lock_whether_it_leads_or_not;
        leads_for_a_while: FaultyHarness::new(leadership::Holds::new(leadership::LeadsForAWhile)),
            breaks 31, caught by without_spread_everything_stays_where_it_is;

        // Dead letters.
        opens_no_dead_letter_again: FaultyHarness::new(dead_letters::OpensNoDeadLetterAgain),
            breaks 24, caught by an_event_has_one_dead_letter_which_is_opened_again;
        shows_dead_letters_of_all_streams: FaultyHarness::new(dead_letters::Queries(dead_letters::of_all_streams)),
            breaks 24, caught by dead_letters_are_found_by_what_is_asked_for;
        shows_dead_letters_of_all_types: FaultyHarness::new(dead_letters::Queries(dead_letters::of_all_types)),
            breaks 24, caught by dead_letters_are_found_by_what_is_asked_for;
        shows_dead_letters_of_everybody: FaultyHarness::new(dead_letters::Queries(dead_letters::of_everybody)),
            breaks 24, caught by dead_letters_are_found_by_what_is_asked_for;
        shows_the_first_page_again: FaultyHarness::new(dead_letters::Queries(dead_letters::first_page)),
            breaks 24, caught by dead_letters_are_found_by_what_is_asked_for;
        shows_dead_letters_in_any_state: FaultyHarness::new(dead_letters::Queries(dead_letters::in_any_state)),
            breaks 24, caught by dead_letters_are_found_by_what_is_asked_for;
        shows_no_payload: FaultyHarness::new(dead_letters::Shows(|detail| detail.record = None)),
            breaks 24, caught by a_dead_letter_tells_everything;
        forgets_attempts: FaultyHarness::new(dead_letters::Shows(|detail| detail.attempts.clear())),
            breaks 24, caught by what_is_done_with_a_dead_letter_is_recorded;
        counts_no_replays: FaultyHarness::new(transactions::Commits(transactions::no_failed_replay)),
            breaks 24, caught by a_dead_letter_that_fails_again_says_so;
        forgets_who_asked: FaultyHarness::new(transactions::Commits(transactions::nobody_asked)),
            breaks 24, caught by what_is_done_with_a_dead_letter_is_recorded;
        finishes_nothing: FaultyHarness::new(transactions::Commits(transactions::nothing_finished)),
            breaks 24, caught by requests_stay_open_until_they_are_finished;
        loses_requests: FaultyHarness::new(dead_letters::LosesRequests),
            breaks 24, caught by requests_are_filed_anywhere_and_wait;
        knows_no_parked_streams: FaultyHarness::new(dead_letters::KnowsNoParkedStreams),
            breaks 23, caught by parked_streams_stay_parked_after_a_restart;
        counts_nothing_as_parked: FaultyHarness::new(dead_letters::CountsNothingAsParked),
            breaks 23, caught by parked_streams_are_counted;

        // Being filled.
        fills_in_no_metadata: FaultyHarness::new(transfer::Fills::records(transfer::without_metadata)),
            breaks 34, caught by a_store_is_filled_with_everything_as_it_is;
        closes_holes: FaultyHarness::new(transfer::Fills::records(transfer::without_holes)),
            breaks 34, caught by what_is_filled_continues_where_it_was;
        fills_in_half_a_batch: FaultyHarness::new(transfer::Fills::records(transfer::half)),
            breaks 34, caught by a_store_is_filled_with_everything_as_it_is;
        fills_in_no_pauses: FaultyHarness::new(transfer::Fills::checkpoints(transfer::not_paused)),
            breaks 34, caught by a_store_is_filled_with_everything_as_it_is;
        fills_in_no_last_events: FaultyHarness::new(transfer::Fills::checkpoints(transfer::without_events)),
            breaks 34, caught by a_store_is_filled_with_everything_as_it_is;
        fills_in_no_attempts: FaultyHarness::new(transfer::Fills::dead_letters(transfer::without_attempts)),
            breaks 34, caught by a_store_is_filled_with_everything_as_it_is;
        fills_in_open_dead_letters_alone: FaultyHarness::new(transfer::Fills::dead_letters(transfer::open_ones)),
            breaks 34, caught by a_store_is_filled_with_everything_as_it_is;
        fills_in_no_requests: FaultyHarness::new(transfer::Fills::requests(Vec::clear)),
            breaks 34, caught by a_store_is_filled_with_everything_as_it_is;
        fills_in_anything: FaultyHarness::new(transfer::FillsInAnything),
            breaks 34, caught by what_breaks_the_order_is_not_filled_in;
        fills_whatever_it_holds: FaultyHarness::new(transfer::FillsWhateverItHolds),
            breaks 34, caught by only_an_empty_store_is_filled;
        stays_locked_when_filled: FaultyHarness::new(transfer::StaysLockedWhenFilled),
            breaks 34, caught by what_is_filled_continues_where_it_was;
        starts_fillings_again: FaultyHarness::new(transfer::StartsFillingsAgain),
            breaks 34, caught by a_filling_that_was_interrupted_is_resumed;
        continues_from_anywhere: FaultyHarness::new(transfer::ContinuesFromAnywhere),
            breaks 34, caught by a_filling_that_was_interrupted_is_resumed;
        keeps_what_was_told_before: FaultyHarness::new(transfer::KeepsWhatWasToldBefore),
            breaks 34, caught by a_filling_that_was_interrupted_is_resumed;
        fills_without_a_lock: FaultyHarness::new(transfer::FillsWithoutALock),
            breaks 35, caught by a_filling_locks_everybody_else_out;
        unlocks_when_interrupted: FaultyHarness::new(transfer::UnlocksWhenInterrupted),
            breaks 35, caught by a_filling_locks_everybody_else_out;
        lets_two_fill: FaultyHarness::new(transfer::LetsTwoFill),
            breaks 35, caught by only_one_fills_at_a_time;
        abandons_nothing: FaultyHarness::new(transfer::AbandonsNothing),
            breaks 35, caught by a_filling_can_be_abandoned;
        abandons_the_lock_alone: FaultyHarness::new(transfer::AbandonsTheLockAlone),
            breaks 35, caught by a_filling_can_be_abandoned;
        abandons_in_silence: FaultyHarness::new(transfer::AbandonsInSilence),
            breaks 6, caught by positions_in_what_was_abandoned_are_void, a_view_of_what_was_abandoned_is_folded_anew;
        hides_its_filling: FaultyHarness::new(transfer::HidesItsFilling),
            breaks 34, caught by half_a_copy_is_no_source;
        calls_half_a_copy_healthy: FaultyHarness::new(transfer::CallsHalfACopyHealthy),
            breaks 36, caught by half_a_copy_says_that_it_is;
    }
}

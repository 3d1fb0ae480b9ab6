//! The list of cases, in one place, and the tests made from it.
//!
//! A new case is a function in the file of its topic and a line here. It has to reject a broken backend: one that is listed
//! in `tests/broken/main.rs` as caught by it, or is seen to be.

/// Hands the list of cases, by topic and each with the guarantees it checks, to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ([$($then:tt)*] $($with:tt)*) => {
        $($then)*! { [$($with)*]
            append {
                an_append_returns_the_place_of_each_event [1, 3, 5];
                an_append_to_several_streams_is_stored_whole [1];
                a_large_append_is_stored_whole [1, 5];
                the_events_of_an_append_are_numbered_in_its_order [5];
                versions_have_no_holes [3];
                version_order_and_sequence_order_agree [5];
                stored_events_come_back_with_their_numbers [1, 9];
            }
            expectations {
                any_expects_nothing [2, 3];
                no_stream_accepts_only_a_new_stream [2];
                stream_exists_accepts_only_an_existing_stream [2, 10];
                exact_accepts_only_that_version [2];
                a_version_that_cannot_exist_is_a_conflict [2];
                each_stream_of_an_append_has_its_own_expectation [2];
                a_conflict_in_any_stream_stores_nothing_in_all_of_them [1, 2];
                events_with_versions_expect_them [2];
                of_racers_for_one_version_exactly_one_wins [2];
            }
            idempotency {
                an_append_sent_again_returns_its_first_places [4];
                an_append_sent_again_after_others_is_still_known [4];
                ids_are_checked_before_versions [4];
                an_append_to_several_streams_is_repeated_as_a_whole [4];
                a_mixture_of_known_and_new_ids_is_refused [4];
                an_id_of_another_event_is_refused [4];
                metadata_and_time_may_differ_the_second_time [4];
                a_payload_written_in_another_order_is_the_same_payload [4];
                what_was_refused_may_be_sent_again [2, 4];
                the_same_append_sent_many_times_at_once_is_stored_once [4];
            }
            settling {
                what_is_open_is_not_seen [1, 6];
                a_late_commit_is_not_skipped [6];
                a_late_commit_is_not_skipped_by_a_filter [6, 8];
                a_slow_commit_is_not_given_up [6];
                a_rollback_holds_nobody_back [6];
                a_writer_that_holds_readers_back_is_named [6];
                typed_reading_waits_for_what_is_open [6];
                an_open_append_is_committed_like_any_other [1, 4];
            }
            paging {
                reading_resumes_after_a_position [7];
                pages_of_any_size_hold_each_event_once [7];
                a_stream_in_pages_of_any_size_is_the_same [7];
                a_page_holds_one_record_however_small_its_limit [7];
                the_end_of_a_stream_is_said_where_it_is [7];
                typed_reading_goes_over_many_pages [7];
            }
            filtering {
                a_rare_type_is_found_behind_many_others [8];
                the_position_moves_on_past_what_is_not_wanted [8];
                filtered_pages_hold_each_wanted_event_once [7, 8];
                filtered_reading_resumes_anywhere [7, 8];
                types_are_matched_whole_and_to_the_letter [8];
                typed_reading_finds_rare_types [8];
                a_stream_is_filtered_before_it_is_limited [7, 8];
                a_stream_is_read_from_any_place_in_the_log [7];
                the_end_of_what_was_asked_for_is_said_where_it_is [7, 8];
            }
            naming {
                a_stream_keeps_the_name_that_its_first_event_brought [39];
                a_stream_that_began_without_a_name_gets_one_later [39];
                streams_are_listed_by_name [39];
                events_are_filtered_by_the_kinds_of_their_streams [8, 39];
                names_that_cannot_be_are_refused [11];
            }
            reading {
                every_field_is_read_as_it_was_written [9];
                json_comes_back_to_the_byte [9];
                event_types_come_back_as_they_are [9];
                times_come_back_to_the_microsecond [9];
                events_far_over_eight_thousand_bytes_come_back [9];
                values_come_back_as_the_types_they_were [9];
                every_way_of_reading_agrees [5, 9];
                streams_do_not_see_each_other [10];
                a_stream_that_does_not_exist_is_empty [10];
                positions_beyond_the_end_read_as_nothing [7, 10];
                types_the_reader_does_not_know_are_an_error_in_a_stream_and_skipped_in_the_log [8, 9];
                a_payload_that_does_not_fit_is_an_error [9];
                renames_aliases_and_other_are_followed [8, 9];
                an_event_is_as_old_as_its_append [9];
            }
            input {
                an_append_without_events_is_refused [11];
                a_stream_named_without_an_event_is_refused [11];
                what_is_too_large_is_refused_by_default [11];
                what_is_over_a_limit_is_refused [11];
                numbers_that_json_cannot_hold_are_refused [11];
                the_nul_character_is_refused [11];
                metadata_that_is_no_object_is_refused [11];
                event_types_that_cannot_be_used_are_refused [11];
                an_id_twice_in_one_append_is_refused [11];
                versions_that_do_not_follow_each_other_are_refused [11];
                what_is_not_a_variant_is_refused [11];
                what_cannot_be_written_as_json_is_refused [11];
                numbers_and_times_out_of_range_are_refused [11];
                one_bad_event_keeps_the_whole_append_out [1, 11];
                the_ids_of_bad_input_stay_free [4, 11];
                bad_input_is_refused_whatever_the_log_holds [11];
            }
            upcasting {
                old_events_are_read_as_new_ones_everywhere [13];
                a_filter_finds_events_under_their_former_names [8, 13];
                what_is_stored_never_changes [9, 13];
                new_events_are_stored_with_the_current_schema_version [9, 13];
                the_newest_schema_version_of_a_type_is_known [13];
                upcasters_apply_to_what_was_stored_before_there_were_any [13, 15];
                an_upcaster_that_fails_makes_the_event_undecodable [13];
            }
            executing {
                a_state_is_folded_from_its_stream [9, 10];
                what_was_decided_is_stored [1, 2];
                a_decision_for_nothing_stores_nothing [1];
                a_decision_is_made_again_when_another_writer_was_faster [2, 14];
            }
            writers {
                opposite_orders_of_the_same_streams_all_come_through [5, 14];
                many_writers_share_streams_without_a_hole [1, 3, 5];
                readers_see_every_event_of_many_writers_once_and_in_order [3, 5, 6, 7, 8];
            }
            callers {
                a_mistake_concerns_its_caller_alone [14];
                a_stream_held_open_delays_nobody_else [14];
                a_new_stream_held_open_delays_nobody_else [2, 14];
                the_same_append_held_open_is_stored_once [4, 14];
                a_call_that_is_given_up_is_stored_whole_or_not_at_all [1, 4, 14];
                many_calls_given_up_leave_the_store_usable [14];
            }
            keeping {
                an_acknowledged_append_is_there_at_once [15];
                a_log_that_is_opened_again_holds_everything [15];
                a_log_that_is_opened_again_continues [3, 4, 5, 15];
                the_head_is_the_last_committed_event [6, 15];
            }
            random {
                random_histories_get_the_same_answers_as_in_memory [1, 2, 3, 4, 5, 7, 8, 9, 10, 11];
                random_histories_at_once_can_be_put_in_order [1, 2, 3, 4, 5, 6, 9];
            }
            diagnose {
                a_healthy_store_has_nothing_bad_about_it_and_nothing_planned [36];
                what_is_not_good_says_what_to_do [36];
                looking_changes_nothing_and_waits_for_nobody [36];
            }
            wakeups {
                an_append_wakes_everybody_who_waits [12];
                an_append_through_the_typed_store_wakes_as_well [12];
                what_is_not_committed_wakes_nobody [12];
                a_refused_append_wakes_nobody [12];
                many_appends_come_as_few_hints [12];
                a_wait_that_is_given_up_loses_no_hint [12];
                an_announcement_wakes_everybody_who_waits [12];
                a_hint_never_runs_ahead_of_the_log [12];
            }
            checkpoints {
                a_new_subscriber_has_no_checkpoint [16];
                taking_over_stores_the_start [16];
                a_checkpoint_is_stored_and_replaced [16];
                checkpoints_are_independent [16];
                a_checkpoint_never_moves_back [16];
                several_writes_are_answered_one_by_one [16, 17];
                terms_only_grow [17];
                an_older_term_writes_nothing [17];
                a_missing_checkpoint_is_fenced [17];
                positions_of_another_life_write_nothing [17];
                checkpoints_are_there_when_a_log_is_opened_again [16, 17];
                reports_come_back_as_they_were_made [32];
                a_former_leader_says_nothing_any_more [32];
            }
            transactions {
                what_is_written_comes_with_the_checkpoint [18];
                what_is_taken_back_leaves_nothing [18];
                transactions_of_one_subscriber_exclude_each_other [18];
                nobody_takes_over_under_an_open_transaction [17, 18];
                beginning_tells_what_is_true [18];
                a_foreign_term_commits_nothing [17, 18];
                a_closing_that_starts_elsewhere_is_refused [18];
                what_cannot_be_committed_is_said_and_leaves_nothing [18];
                a_dead_letter_and_its_checkpoint_are_one [18, 22];
                a_reset_is_one_with_what_it_empties [17, 24, 27];
                a_reset_leaves_the_dead_letters_before_it [24, 33];
            }
            dead_letters {
                a_dead_letter_tells_everything [24];
                dead_letters_are_found_by_what_is_asked_for [24];
                an_event_has_one_dead_letter_which_is_opened_again [24];
                what_is_done_with_a_dead_letter_is_recorded [24];
                parked_streams_are_counted [23, 24];
                beginning_tells_whether_a_dead_letter_is_open [18, 24];
                only_what_was_resolved_long_ago_is_purged [24];
            }
            requests {
                pauses_are_kept [25];
                requests_stay_open_until_they_are_finished [24];
            }
            transfer {
                a_store_is_filled_with_everything_as_it_is [34];
                what_is_filled_continues_where_it_was [34];
                only_an_empty_store_is_filled [34];
                a_filling_that_was_interrupted_is_resumed [34];
                what_breaks_the_order_is_not_filled_in [34];
                a_filling_locks_everybody_else_out [35];
                only_one_fills_at_a_time [35];
                a_filling_can_be_abandoned [35];
                positions_in_what_was_abandoned_are_void [6, 35];
                a_view_of_what_was_abandoned_is_folded_anew [37];
                a_copy_holds_the_same [34];
                half_a_copy_is_no_source [34];
                half_a_copy_says_that_it_is [36];
                an_export_is_imported_as_the_same_bytes [34];
                a_bad_import_leaves_nothing_behind [34, 35];
            }
            leadership {
                of_fifty_who_wait_one_leads_at_a_time [28];
                of_fifty_who_try_at_once_one_leads [28];
                names_are_led_independently [28];
                who_leads_cannot_lead_twice [28];
                who_waits_leads_as_soon_as_it_is_free [28];
                an_instance_that_goes_lets_others_lead [29];
                a_release_is_done_when_it_returns [29];
                closing_releases_everything [29];
                a_claim_that_is_given_up_leaves_nothing [29];
                a_new_leader_resumes_from_what_is_stored [17, 30];
                it_is_told_who_leads [30];
                who_has_the_lock_and_no_term_does_not_lead_yet [30];
                who_waits_is_told_who_leads [30];
                without_coordination_everybody_leads_and_the_last_one_writes [17, 30];
                names_that_cannot_be_led_are_refused [28];
                it_is_told_who_has_a_lock_whether_it_leads_or_not [30];
            }
            following {
                a_late_subscriber_gets_everything [19];
                what_arrives_while_catching_up_comes_once_and_in_order [19, 20];
                progress_is_stored_batch_by_batch [19, 21];
                subscribers_go_at_their_own_pace [16, 19];
                a_subscriber_gets_the_types_it_wants_and_moves_on [21];
                a_subscriber_gets_the_kinds_it_wants_and_moves_on [39];
                a_subscriber_may_start_at_the_end [16, 19];
                a_subscriber_may_start_after_a_position [16, 19];
                large_events_arrive_within_small_limits [19];
                what_others_append_is_noticed [19];
                what_is_committed_late_is_not_left_out [19, 21];
                an_observer_may_append_while_it_handles [19];
                functions_and_shared_observers_can_be_subscribed [19];
            }
            resuming {
                a_subscriber_does_not_start_at_an_end_that_is_gone [16];
                after_a_crash_one_batch_comes_again_at_most [19, 21];
                after_a_crash_one_event_comes_again_at_most [19, 21];
                a_checkpoint_is_stored_in_time_however_many_events_wait [19];
                after_a_crash_in_a_transaction_nothing_counts_twice [20];
                checkpoints_that_cannot_be_stored_are_retried [16, 19];
            }
            counting {
                a_lost_answer_counts_nothing_twice [18, 20];
                what_a_failed_handler_wrote_is_taken_back [20, 22];
                in_a_batch_only_the_bad_event_pays [20, 22];
                a_transaction_that_cannot_be_committed_is_a_failure [18, 22];
            }
            failing {
                a_failure_that_passes_leaves_no_dead_letter [22];
                an_event_that_keeps_failing_becomes_a_dead_letter [21, 22];
                a_panic_is_a_failure [22];
                a_handler_that_takes_too_long_is_a_failure [22];
                a_permanent_error_is_not_retried [22];
                any_error_can_be_kept [22];
                an_event_that_cannot_be_decoded_becomes_a_dead_letter [22];
                a_dead_letter_keeps_nobody_from_the_end_of_the_log [16, 22];
                the_checkpoint_stays_until_the_dead_letter_is_written [21, 22];
                a_subscriber_in_trouble_delays_nobody [22];
            }
            ordering {
                a_halted_subscriber_stops_in_front_of_the_event [21, 23];
                a_parked_stream_keeps_its_order [23];
                a_head_that_fails_again_keeps_the_rest_waiting [23, 24];
                a_dead_letter_whose_answer_is_lost_parks_its_stream_all_the_same [18, 23];
                a_replay_whose_answer_is_lost_frees_its_stream_all_the_same [18, 24];
                parked_streams_stay_parked_after_a_restart [23];
                too_many_parked_events_halt_the_subscriber [23];
            }
            replaying {
                dead_letters_are_replayed_one_or_all_in_order [20, 24];
                a_dead_letter_that_fails_again_says_so [24];
                a_dead_letter_is_discarded_with_a_reason [24];
                requests_are_filed_anywhere_and_wait [24];
                what_cannot_be_asked_for_is_refused [24];
            }
            controlling {
                a_pause_lasts_until_it_is_ended [25];
                a_pause_from_elsewhere_is_heeded [25];
                a_subscriber_that_is_unsubscribed_resumes_later [25];
                a_shutdown_finishes_what_is_in_hand [25];
                a_shutdown_does_not_wait_for_ever [25];
                a_name_is_subscribed_once [25];
                names_and_settings_that_cannot_be_used_are_refused [25];
            }
            waiting {
                a_waiting_caller_is_told_when_it_is_there [26];
                a_caller_that_waits_in_vain_is_told_how_far_it_is [26];
                a_waiting_caller_is_told_of_a_dead_letter [24, 26];
                caught_up_means_that_everything_is_handled [26];
                lag_counts_against_what_is_committed [26, 32];
                health_names_who_holds_readers_back_at_once [26];
                health_names_what_is_wrong [26];
                health_names_who_has_fallen_behind [26];
                health_names_who_does_not_even_begin [26];
            }
            viewing {
                a_view_has_everything_on_every_instance [37];
                a_view_leaves_out_nothing_that_is_committed_late [37];
                a_view_starts_from_a_snapshot_of_this_log [37];
                a_view_of_some_kinds_leaves_out_the_rest [37, 39];
                a_view_that_cannot_fold_says_so [37];
                a_view_that_skips_failures_continues_and_counts_them [37];
                a_view_waits_while_the_store_does_not_answer [37];
                a_view_of_a_replaced_server_is_folded_anew [37];
                a_view_ends_with_its_bus [37];
            }
            rebuilding {
                a_rebuild_counts_everything_anew [20, 27];
                a_rebuild_archives_the_dead_letters [24, 27];
                what_cannot_be_reset_stays_as_it_is [27];
                a_rebuild_whose_answer_is_lost_is_done_all_the_same [18, 27];
            }
            setting_up {
                a_version_is_one_with_what_was_made [18, 38];
                tables_are_set_up_once_before_the_first_event [38];
                of_instances_that_start_at_once_one_sets_up [28, 38];
                tables_of_another_version_halt_until_they_are_rebuilt [27, 38];
                tables_of_another_version_are_rebuilt_where_that_is_chosen [27, 38];
                an_older_instance_leaves_the_subscriber_to_newer_ones [38];
                an_older_instance_stops_no_newer_one [17, 38];
                who_stands_by_learns_that_the_leader_has_halted [26, 38];
                a_rebuild_may_be_requested_before_the_code_is_there [24, 38];
                a_setup_that_fails_is_retried_and_skips_nothing [21, 38];
                a_setup_whose_answer_is_lost_is_not_done_twice [18, 38];
                tables_that_would_lack_events_are_not_made [38];
                who_waits_finds_the_tables [38];
                a_version_belongs_to_the_tables_that_are_there [38];
            }
            fencing {
                of_two_buses_the_newer_wins [17];
                of_two_counters_only_one_counts [17, 20];
            }
            instances {
                one_instance_processes_and_the_others_stand_by [28, 30];
                after_a_shutdown_another_instance_takes_over [28, 29];
                after_an_unsubscription_another_instance_takes_over [28, 29];
                different_instances_lead_different_subscribers [28];
                a_standby_says_how_far_the_leader_is [26, 30];
                what_is_asked_of_a_standby_is_done_by_the_leader [24, 25, 30];
                a_pause_outlasts_the_leader [25, 30];
                a_takeover_whose_answer_is_lost_is_made_again [17, 29];
                a_leader_that_is_overtaken_stands_by_and_leads_again [17, 30];
                a_leader_that_has_lost_leadership_handles_nothing_more [29, 30];
                a_subscriber_that_nobody_leads_is_a_problem_that_names_who_has_its_lock [26, 30, 36];
                however_often_leaders_die_everything_counts_once [19, 20, 29];
            }
            spreading {
                the_work_is_spread [31];
                without_spread_everything_stays_where_it_is [31];
                subscribers_go_where_they_prefer_to_be [31];
                what_is_in_trouble_is_not_moved [31];
            }
            reporting {
                a_leader_says_how_it_is [32];
                who_stands_by_says_nothing [30, 32];
                who_has_nothing_to_do_says_nothing [32];
                what_cannot_be_said_hinders_nobody [32];
                an_overview_shows_every_subscriber [32];
                it_is_explained_why_a_subscriber_is_where_it_is [32];
                the_writer_that_is_waited_for_is_named_from_outside [6, 32];
            }
            steering {
                a_checkpoint_is_moved_while_nobody_leads [33];
                no_checkpoint_is_moved_under_a_leader [33];
                a_forced_move_is_followed_by_who_leads [17, 33];
                a_forced_move_gets_past_what_halts [23, 33];
                a_forced_move_replays_nothing [33];
                what_cannot_be_moved_to_is_refused [33];
            }
            removing {
                a_removal_is_one_with_everything_that_is_stored [17, 18, 33];
                a_subscriber_that_is_gone_is_removed_and_starts_anew [33];
                no_subscriber_is_removed_under_a_leader [17, 33];
            }
            leasing {
                a_lease_is_shown_as_one_and_not_as_a_subscriber [32];
                a_lease_that_stores_a_position_is_a_subscriber [16, 32];
                leases_are_no_part_of_a_copy [34];
            }
            troubled {
                nothing_is_lost_or_counted_twice_in_bad_weather [18, 19, 20, 21, 22, 23, 24];
            }
        }
    };
}

/// Holds a backend against the contract: one `#[test]` for each case, named after it.
///
/// Takes an expression that makes a [`Harness`](crate::Harness). It is evaluated once for each test, inside the
/// runtime that the test gets. Several suites in one file stand in modules of their own.
///
/// ```
/// # use highwater_contract::MemoryHarness;
/// highwater_contract::suite!(MemoryHarness);
/// ```
#[macro_export]
macro_rules! suite {
    ($harness:expr) => {
        $crate::for_each_case! { [$crate::tests_of_cases] $harness }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tests_of_cases {
    ([$harness:expr] $($topic:ident { $($case:ident $guarantees:tt;)* })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::run(stringify!($case), || $harness);
            }
        )*)*
    };
}

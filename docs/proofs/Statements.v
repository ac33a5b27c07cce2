(** * What is proved, over the rational numbers, and on which axioms it rests.

    docs/proofs/check refuses anything that is not "Closed under the global context". *)

From mathcomp Require Import all_ssreflect all_algebra.
From OdsynthProofs Require Import Basics Mixtures Urn Pruning Tails Failure Pools Noise.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(** The rational numbers, as an ordered field. *)
Notation QQ := rat_realFieldType.

Section Resampling.
(** A pool: cells I in strata S, each with a prior A and a retention F; n slots and m draws; the numbers kept of a
    plan; G = e^U. *)
Variables (I S : finType) (stratum : I -> S) (A F : S -> QQ) (kept : S -> nat) (n m : nat) (G smallest : QQ).
Hypotheses (A0 : forall s, 0 < A s) (F01 : forall s, 0 < F s <= 1) (n0 : (0 < n)%N) (G1 : 1 <= G).
Hypotheses (kept_cells : forall s, (kept s <= #|[set c | stratum c == s]|)%N).
Hypotheses (smallest0 : 0 <= smallest) (smallest_prior : forall c, smallest <= A (stratum c)).

Let prior c := A (stratum c).
Let retention c := F (stratum c).

Theorem it_is_a_mechanism : is_mechanism (of_size n) (@resampling QQ I prior retention m).
Proof.
move=> h hn.
exact: (@resampling_is_a_mechanism QQ I prior retention m (fun c => A0 _) (fun c => F01 _) n n0 h hn).
Qed.

(** P(s | h) of docs/privacy.md, for draws in a given order. *)
Theorem the_likelihood (h : I -> nat) (t : m.-tuple I) :
  resampling prior retention h t
    = (\prod_c factor prior retention c (h c) (count_mem c t)) * D prior retention m h t.
Proof. by apply: likelihood => c; exact: A0. Qed.

(** Hence the pool is (U + V, F)-pdp, whatever its data. *)
Theorem a_pool : pdp (of_size n) (@neighbour I) (@resampling QQ I prior retention m)
  (G * pruning_gain prior retention m n) (failure stratum A F kept n m G smallest).
Proof. exact: pool_pdp. Qed.

Theorem a_pool_dp : dp (of_size n) (@neighbour I) (@resampling QQ I prior retention m)
  (G * pruning_gain prior retention m n) (failure stratum A F kept n m G smallest).
Proof.
apply: pdp_dp a_pool; first exact: it_is_a_mechanism.
rewrite mulr_ge0 ?(le_trans ler01 G1) // (le_trans ler01) //.
by apply: pruning_gain_ge1.
Qed.

End Resampling.

Definition block_loss_rat := @block_loss QQ.
Definition threshold_rat := @threshold QQ.
Definition pruning_loss_rat := @pruning_loss QQ.
Definition pruning_loss_met_rat := @pruning_loss_met QQ.
Definition ratio_falls_with_workers_rat := @ratio_falls_with_workers QQ.
Definition ratio_falls_with_cells_rat := @ratio_falls_with_cells QQ.
Definition ratio_grows_with_draws_rat := @ratio_grows_with_draws QQ.
Definition ratio_largest_with_sure_rat := @ratio_largest_with_sure QQ.
Definition marginal_rat := @marginal QQ.
Definition draws_beta_binomial_rat := @draws_beta_binomial QQ.
Definition draws_number_rat := @draws_number QQ.
Definition draws_weight_of_cell_rat := @draws_weight_of_cell QQ.
Definition draws_weight_of_urn_rat := @draws_weight_of_urn QQ.
Definition weight_of_urn_rat := @weight_of_urn QQ.
Definition light_is_unlikely_rat := @light_is_unlikely QQ.
Definition tail_by_ratios_rat := @tail_by_ratios QQ.
Definition failure_bound_rat := @failure_bound QQ.
Definition pools_pdp_rat := @pools_pdp QQ.
Definition pools_dp_rat := @pools_dp QQ.
Definition pdp_dp_rat := @pdp_dp QQ.
Definition noise_adds_up_rat := @noise_adds_up QQ.
Definition noise_loss_met_rat := @noise_loss_met QQ.
Definition presence_loss_rat := @presence_loss QQ.
Definition tables_loss_rat := @tables_loss QQ.
Definition tables_dp_rat := @tables_dp QQ.
Definition record_loss_rat := @record_loss QQ.
Definition records_dp_rat := @records_dp QQ.
Definition presence_dp_rat := @presence_dp QQ.

Print Assumptions it_is_a_mechanism.
Print Assumptions the_likelihood.
Print Assumptions a_pool.
Print Assumptions a_pool_dp.
Print Assumptions block_loss_rat.
Print Assumptions threshold_rat.
Print Assumptions pruning_loss_rat.
Print Assumptions pruning_loss_met_rat.
Print Assumptions ratio_falls_with_workers_rat.
Print Assumptions ratio_falls_with_cells_rat.
Print Assumptions ratio_grows_with_draws_rat.
Print Assumptions ratio_largest_with_sure_rat.
Print Assumptions marginal_rat.
Print Assumptions draws_beta_binomial_rat.
Print Assumptions draws_number_rat.
Print Assumptions draws_weight_of_cell_rat.
Print Assumptions draws_weight_of_urn_rat.
Print Assumptions weight_of_urn_rat.
Print Assumptions light_is_unlikely_rat.
Print Assumptions tail_by_ratios_rat.
Print Assumptions failure_bound_rat.
Print Assumptions pools_pdp_rat.
Print Assumptions pools_dp_rat.
Print Assumptions pdp_dp_rat.
Print Assumptions noise_adds_up_rat.
Print Assumptions noise_loss_met_rat.
Print Assumptions presence_loss_rat.
Print Assumptions tables_loss_rat.
Print Assumptions tables_dp_rat.
Print Assumptions record_loss_rat.
Print Assumptions records_dp_rat.
Print Assumptions presence_dp_rat.

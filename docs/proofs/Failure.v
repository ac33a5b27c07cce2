(** * Lemmas 3, 4 and 7: the probability of a bad cell, and the theorem about a pool. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From OdsynthProofs Require Import Basics Mixtures Urn Pruning Tails.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Marginal.
Variables (R : realFieldType) (I : finType).
Implicit Types (w : I -> R) (K : {set I}) (c : I) (phi : nat -> R).

(** Lemma 3: the draws from one cell of an urn are beta-binomial (draws_beta_binomial). *)
Theorem marginal m K w c phi : (forall d, 0 < w d) -> c \in K ->
  \sum_(t : m.-tuple I) phi (count_mem c t) * urn K w t = draws m (w c) (\sum_(d in K) w d) phi.
Proof.
elim: m w phi => [|m ih] w phi w0 cK.
  rewrite (big_pred1 [tuple]) /= ?mulr1 // => t; apply/esym/eqP/val_inj/size0nil; exact: size_tuple.
set W := \sum_(d in K) w d.
have Wn : W != 0 by rewrite gt_eqF // /W (bigD1 c) //= ltr_paddr ?sumr_ge0 // => d _; exact: ltW.
have next e : e \in K -> \sum_(d in K) (w d + (d == e)%:R) = W + 1.
  move=> eK; rewrite big_split /=; congr (_ + _).
  by rewrite (bigD1 e) //= eqxx big1 ?addr0 // => d /andP[_ /negPf->].
have pos e d : 0 < w d + (d == e)%:R by rewrite ltr_paddr ?ler0n.
rewrite big_tuple_cons /=.
have -> : \sum_d \sum_(t : m.-tuple I) phi (addn (d == c) (count_mem c t)) *
    ((if d \in K then w d / W else 0) * urn K (fun e => w e + (e == d)%:R) t)
  = \sum_(d in K) w d / W * draws m (w c + (c == d)%:R) (W + 1) (fun s => phi (addn (d == c) s)).
  rewrite [RHS]big_mkcond; apply: eq_bigr => d _; case: ifPn => dK; last first.
    by rewrite big1 // => t _; rewrite mul0r mulr0.
  rewrite -(next d dK) -(ih (fun e => w e + (e == d)%:R) (fun s => phi (addn (d == c) s)) (pos d) cK) mulr_sumr.
  by apply: eq_bigr => t _; rewrite mulrCA.
rewrite (bigD1 c) //= eqxx; congr (_ + _).
rewrite (eq_bigr (fun d => w d / W * draws m (w c) (W + 1) phi)) => [|d /andP[_ /negPf dc]]; last first.
  by rewrite dc eq_sym dc addr0.
rewrite -!mulr_suml; congr (_ * _).
have e : W = w c + \sum_(d in K | d != c) w d by rewrite /W (bigD1 c).
apply: (mulIf Wn); rewrite divfK // mulrBl mul1r divfK // {1}e addrC addKr; exact: eq_bigl.
Qed.

End Marginal.

Section Failure.
Variables (R : realFieldType) (I S : finType).
(** Strata of cells; each has a prior, a retention, and a number of cells that the bound takes to be in the urn. *)
Variables (stratum : I -> S) (A F : S -> R) (kept : S -> nat).
Hypotheses (A0 : forall s, 0 < A s) (F01 : forall s, 0 < F s <= 1).
Let prior c := A (stratum c).
Let retention c := F (stratum c).
(** Slots and draws of the pool, and G = e^U. *)
Variables (n m : nat) (G : R).
Hypothesis n0 : (0 < n)%N.
Hypothesis G1 : 1 <= G.
Implicit Types (h : I -> nat) (K : {set I}) (c : I) (s : S).

Definition cells s : nat := #|[set c | stratum c == s]|.
Definition in_urn K s : nat := #|[set c in K | stratum c == s]|.
Hypothesis kept_cells : forall s, (kept s <= cells s)%N.

Let prior0 c : 0 < prior c. Proof. exact: A0. Qed.
Let retention01 c : 0 < retention c <= 1. Proof. exact: F01. Qed.
Let chance h c : R := if (0 < h c)%N then 1 else retention c.
Let coins := @coins R I retention.
Let resampling := @resampling R I prior retention m.
Let weights := @weights R I prior.
Let gain := @gain R I prior retention.

(** ** Lemma 4 *)

(** Chernoff's bound exp(-N KL(p, f)), p = k / N, of P(Binomial(N, f) <= k): a rational number. *)
Definition chernoff (N k : nat) (f : R) : R :=
  let p := k%:R / N%:R in if p < f then (f / p) ^+ k * ((1 - f) / (1 - p)) ^+ (N - k) else 1.

(** Fewer cells of some stratum than kept are in the urn. *)
Definition light K := [exists s, (F s < 1) && (in_urn K s < kept s)%N].
Definition eta : R := \sum_(s | (F s < 1) && (0 < kept s)%N) chernoff (cells s) (kept s).-1 (F s).

Lemma sum_products (p q : I -> R) : \sum_(K : {set I}) \prod_c (if c \in K then p c else q c) = \prod_c (p c + q c).
Proof.
have := all_coins p q (fun=> 1) (enum_uniq I) (mem_enum I).
have one L K : throw p q (fun=> 1) L K = \prod_(c <- L) (p c + q c).
  by elim: L K => [|c L ih] K /=; rewrite ?big_nil // !ih big_cons mulrDl.
rewrite one big_enum => <-; apply: eq_bigr => K _; by rewrite mulr1.
Qed.

Let coins_as h K : coins h K = \prod_c (if c \in K then chance h c else 1 - chance h c) := coins_as retention h K.
Let coins0 h K : 0 <= coins h K := coins_ge0 retention01 h K.

Lemma in_the_urn h c : \sum_(K : {set I} | c \in K) coins h K = chance h c.
Proof.
rewrite big_mkcond /=.
transitivity (\sum_(K : {set I}) \prod_d (if d \in K then chance h d else if d == c then 0 else 1 - chance h d)).
  apply: eq_bigr => K _; rewrite coins_as; case: ifPn => cK.
    by apply: eq_bigr => d _; case: ifPn => // dK; case: eqP dK => // ->; rewrite cK.
  by rewrite (bigD1 c) //= (negPf cK) eqxx mul0r.
rewrite sum_products (bigD1 c) //= eqxx addr0 big1 ?mulr1 // => d /negPf->; ring.
Qed.

Lemma few_in_the_urn h s k : F s < 1 -> (k < cells s)%N ->
  \sum_(K | (in_urn K s <= k)%N) coins h K <= chernoff (cells s) k (F s).
Proof.
move=> f1' kN; rewrite /chernoff; set N := cells s; set f := F s; set p := k%:R / N%:R.
have /andP[f0 f1] : 0 < f <= 1 := F01 s.
case: ifPn => [pf|_]; last first.
  rewrite -(sum_coins_one retention h) [X in _ <= X](bigID (fun K => in_urn K s <= k)%N) /=.
  by rewrite ler_addl sumr_ge0 // => K _; exact: coins0.
have N0 : 0 < N%:R :> R by rewrite ltr0n (leq_ltn_trans _ kN).
have p0 : 0 <= p by rewrite divr_ge0 ?ler0n.
have p1 : p < 1 by rewrite ltr_pdivr_mulr // mul1r ltr_nat.
have q0 : 0 < 1 - p by rewrite subr_gt0.
pose z := p * (1 - f) / (f * (1 - p)).
have D0 : 0 < f * (1 - p) by rewrite mulr_gt0.
have z0 : 0 <= z by apply: divr_ge0; [rewrite mulr_ge0 // subr_ge0 | exact: ltW].
have z1 : z <= 1.
  rewrite /z ler_pdivr_mulr // mul1r -subr_ge0.
  have -> : f * (1 - p) - p * (1 - f) = f - p by ring.
  by rewrite subr_ge0 ltW.
have fz : f * z + (1 - f) = (1 - f) / (1 - p).
  by rewrite /z; field; rewrite !gt_eqF.
(* E z^(cells in the urn) *)
have mean : \sum_K coins h K * z ^+ in_urn K s <= ((1 - f) / (1 - p)) ^+ N.
  pose zc c := if stratum c == s then z else 1.
  have -> : \sum_K coins h K * z ^+ in_urn K s
      = \sum_(K : {set I}) \prod_c (if c \in K then chance h c * zc c else 1 - chance h c).
    apply: eq_bigr => K _; rewrite coins_as.
    have -> : z ^+ in_urn K s = \prod_c (if c \in K then zc c else 1).
      rewrite /in_urn -prodr_const big_mkcond /=; apply: eq_bigr => c _; rewrite inE /zc.
      by case: (c \in K); case: (stratum c == s).
    by rewrite -big_split /=; apply: eq_bigr => c _; case: ifP => _; rewrite ?mulr1.
  rewrite sum_products -fz /N /cells -prodr_const.
  rewrite [X in _ <= X]big_mkcond /=; apply: ler_prod => c _; rewrite inE /zc.
  have /andP[c0 c1] : 0 <= chance h c <= 1.
    by rewrite /chance; case: ifP => _; rewrite ?ler01 ?lexx //; have /andP[/ltW-> ->] := retention01 c.
  have g0 : 0 <= 1 - chance h c by rewrite subr_ge0.
  case: eqP => [es|_]; last by rewrite mulr1 addrCA subrr addr0 ler01 lexx.
  apply/andP; split; first by apply: addr_ge0 => //; exact: mulr_ge0.
  rewrite /chance; case: (0 < h c)%N; last by rewrite /retention es; exact: lexx.
  rewrite subrr addr0 mul1r -subr_ge0.
  have -> : f * z + (1 - f) - z = (1 - f) * (1 - z) by ring.
  by rewrite mulr_ge0 // subr_ge0.
have markov : z ^+ k * (\sum_(K | (in_urn K s <= k)%N) coins h K) <= ((1 - f) / (1 - p)) ^+ N.
  apply: le_trans mean; rewrite mulr_sumr [X in _ <= X](bigID (fun K => in_urn K s <= k)%N) /=.
  apply: ler_paddr; first by apply: sumr_ge0 => K _; rewrite mulr_ge0 ?exprn_ge0 ?coins0.
  by apply: ler_sum => K le; rewrite mulrC ler_wpmul2l ?coins0 // ler_wiexpn2l.
have zk : 0 < z ^+ k.
  have [->|k0] := posnP k; first by rewrite expr0 ltr01.
  have pp : 0 < p by rewrite divr_gt0 // ltr0n.
  by rewrite exprn_gt0 // /z divr_gt0 // mulr_gt0 // subr_gt0.
rewrite -(ler_pmul2l zk); apply: le_trans markov _.
have -> : z ^+ k * ((f / p) ^+ k * ((1 - f) / (1 - p)) ^+ (N - k)) = ((1 - f) / (1 - p)) ^+ N.
  rewrite mulrA -exprMn; have [->|k0] := posnP k; first by rewrite expr0 mul1r subn0.
  have pp : 0 < p by rewrite divr_gt0 // ltr0n.
  have -> : z * (f / p) = (1 - f) / (1 - p) by rewrite /z; field; rewrite !gt_eqF.
  by rewrite -exprD subnKC // ltnW.
exact: lexx.
Qed.

(** Lemma 4, the first half: a light urn is unlikely. *)
Theorem light_is_unlikely h : \sum_(K | light K) coins h K <= eta.
Proof.
apply: (@le_trans _ _ (\sum_(s | (F s < 1) && (0 < kept s)%N) \sum_(K | (in_urn K s <= (kept s).-1)%N) coins h K)).
  rewrite (eq_bigr (fun s => \sum_K (in_urn K s <= (kept s).-1)%N%:R * coins h K)) => [|s _]; last first.
    by rewrite big_mkcond; apply: eq_bigr => K _; case: ifP; rewrite ?mul1r ?mul0r.
  rewrite exchange_big [X in X <= _]big_mkcond /=; apply: ler_sum => K _; case: ifPn => [|_]; last first.
    by apply: sumr_ge0 => s _; rewrite mulr_ge0 ?ler0n // coins0.
  case/existsP=> s /andP[Fs less]; rewrite (bigD1 s) /=; last by rewrite Fs (leq_ltn_trans _ less).
  have -> : (in_urn K s <= (kept s).-1)%N by rewrite -ltnS prednK // (leq_ltn_trans _ less).
  by rewrite mul1r ler_addl sumr_ge0 // => s' _; rewrite mulr_ge0 ?ler0n // coins0.
apply: ler_sum => s /andP[Fs ks]; apply: few_in_the_urn => //.
by rewrite prednK // kept_cells.
Qed.

(** Lemma 4, the second half, and Lemma 3: what the urn weighs otherwise. *)
Definition mass : R := \sum_s A s * (kept s)%:R.
Variable smallest : R.
Hypotheses (smallest0 : 0 <= smallest) (smallest_prior : forall c, smallest <= prior c).

(** A lower bound of the weight of the others, for a cell with x workers: [Stratum.rest] of synth.dirichlet.losses. *)
Definition rest c (x : nat) : R :=
  (n - x)%:R + Num.max (mass - prior c) (if (x < n)%N then smallest else 0).

Let total_weight h K := \sum_(c in K) weights h c.

Lemma kept_priors h K : coins h K != 0 -> ~~ light K -> mass <= \sum_(c in K) prior c.
Proof.
move=> ch; rewrite negb_exists => /forallP heavy.
rewrite (partition_big stratum predT) //=; apply: ler_sum => s _.
rewrite (eq_bigr (fun=> A s)) => [|c /andP[_ /eqP <-]] //.
have -> : \sum_(c in K | stratum c == s) A s = A s *+ in_urn K s.
  by rewrite /in_urn -sumr_const; apply: eq_bigl => c; rewrite inE.
rewrite -[_ *+ in_urn _ _]mulr_natr ler_wpmul2l ?(ltW (A0 s)) // ler_nat.
have := heavy s; rewrite negb_and -leNgt -leqNgt => /orP[F1|] //.
apply: leq_trans (kept_cells s) _; rewrite /cells subset_leq_card //; apply/subsetP => c; rewrite !inE => cs.
rewrite cs andbT; apply: contraR ch => cK; rewrite coins_as (bigD1 c) //= (negPf cK) /chance /retention (eqP cs).
have -> : F s = 1 by apply/le_anti; rewrite F1; case/andP: (F01 s) => _ ->.
by rewrite if_same subrr mul0r.
Qed.

Theorem weight_of_urn h K c : of_size n h -> coins h K != 0 -> ~~ light K -> c \in K ->
  weights h c + rest c (h c) <= total_weight h K.
Proof.
move=> hn ch heavy cK.
have occupied d : (0 < h d)%N -> d \in K.
  by move=> hd; apply: contraR ch => dK; rewrite /coins (coins_occupied _ hd dK).
have workers : \sum_(d in K) (h d)%:R = n%:R :> R.
  rewrite -natr_sum -hn; congr _%:R; rewrite big_mkcond /=; apply: eq_bigr => d _; case: ifPn => // dK.
  by apply/esym/eqP; rewrite -leqn0 leqNgt; apply: contra dK; exact: occupied.
have hc : (h c <= n)%N by rewrite -hn (bigD1 c) //= leq_addr.
rewrite /total_weight /weights /Urn.weights big_split /= workers /rest natrB //.
set Q := \sum_(d in K) prior d.
suff most : Num.max (mass - prior c) (if (h c < n)%N then smallest else 0) <= Q - prior c.
  rewrite -subr_ge0; move: most; rewrite -subr_ge0; set M := Num.max _ _ => most.
  by have -> : n%:R + Q - ((h c)%:R + prior c + (n%:R - (h c)%:R + M)) = Q - prior c - M by ring.
rewrite le_maxl ler_add2r (kept_priors ch heavy) /= ler_subr_addl.
have Qc : Q = prior c + \sum_(d in K | d != c) prior d by rewrite /Q (bigD1 c).
have others0 : 0 <= \sum_(d in K | d != c) prior d by apply: sumr_ge0 => d _; exact/ltW/prior0.
rewrite Qc ler_add2l; case: ifP => // less.
have [d /andP[dc hd]] : exists d, (d != c) && (0 < h d)%N.
  apply/existsP; move: less; apply: contraLR; rewrite negb_exists => /forallP none.
  rewrite -leqNgt -hn (bigD1 c) //= big1 ?addn0 // => d dc.
  by apply/eqP; have := none d; rewrite dc /= lt0n negbK.
rewrite (bigD1 d) /=; last by rewrite occupied.
by rewrite ler_paddr // sumr_ge0 // => e _; exact/ltW/prior0.
Qed.

(** ** Lemma 7 *)

(** T_c(x): the probability that BetaBinomial(m, x + a_c, rest) is a bad number of draws. *)
Definition tail c (x : nat) : R :=
  \sum_(s < m.+1) beta_binomial m (x%:R + prior c) (rest c x) s * (G < gain c x s)%R%:R.

Definition bad h (t : m.-tuple I) := [exists c, G < gain c (h c) (count_mem c t)].

Lemma rest_ge0 c x : 0 <= rest c x.
Proof. by rewrite addr_ge0 ?ler0n // le_maxr; case: ifP; rewrite ?smallest0 ?lexx orbT. Qed.

Lemma tail_draws c x : tail c x = draws m (x%:R + prior c) (x%:R + prior c + rest c x) (fun k : nat => (G < gain c x k)%R%:R).
Proof. by rewrite draws_beta_binomial ?rest_ge0 // ltr_paddl ?ler0n. Qed.

Lemma tail_ge0 c x : 0 <= tail c x.
Proof.
have w0 : 0 < x%:R + prior c by rewrite ltr_paddl ?ler0n.
rewrite tail_draws; apply: draws_ge0 => [|||k]; last by rewrite ler0n.
- exact: ltW.
- by rewrite ler_addl rest_ge0.
by rewrite ltr_paddr ?rest_ge0.
Qed.

Lemma gain_rises c x (k l : nat) : (k <= l)%N -> gain c x k <= gain c x l.
Proof.
move=> kl; rewrite /gain /Urn.gain; case: ifP => x2.
  rewrite ler_add2l ler_wpmul2r ?ler_nat // invr_ge0.
  by case: x x2 => // x _; rewrite -[x.+1]addn1 natrD addrK addr_ge0 ?ler0n // ltW.
have f0 : 0 < retention c by case/andP: (retention01 c).
case: k kl => [|k] kl /=.
  case: l {kl} => [|l] //=.
  apply: le_trans (pruned_ge prior0 retention01 c l.+1); by rewrite ler_addl divr_ge0 ?ler0n // ltW.
rewrite (leq_trans _ kl) // ler_pmul2r ?invr_gt0 // ler_add2l ler_pmul2r ?invr_gt0 //.
by rewrite ler_nat.
Qed.

(** Given an urn that is not light, a cell of it is bad with probability T at most. *)
Theorem bad_cell h K c : of_size n h -> coins h K != 0 -> ~~ light K ->
  \sum_(t : m.-tuple I) (G < gain c (h c) (count_mem c t))%R%:R * urn K (weights h) t <= (c \in K)%:R * tail c (h c).
Proof.
move=> hn ch heavy; have W0 := weights_gt0 prior0 h; have [cK|cK] := boolP (c \in K); last first.
  rewrite mul0r big1 // => t _; rewrite urn_closed //; case: ifP => [/allP all|]; last by rewrite mulr0.
  have -> : count_mem c t = 0%N by apply/count_memPn; apply: contra cK => /all.
  have -> : h c = 0%N.
    by apply/eqP; rewrite -leqn0 leqNgt; apply: contra ch => hc; rewrite /coins (coins_occupied _ hc cK).
  by rewrite /gain /Urn.gain /= ltNge G1 mul0r.
rewrite mul1r tail_draws.
rewrite (marginal m (fun k : nat => (G < gain c (h c) k)%R%:R) W0 cK).
have rises_bad : rises (fun k : nat => (G < gain c (h c) k)%R%:R : R).
  move=> k l kl; rewrite ler_nat; have [Gk|] := ltP G (gain c (h c) k); last by [].
  by rewrite (lt_le_trans Gk (gain_rises c (h c) kl)).
apply: draws_weight_of_urn => //.
- exact: ltW.
- by rewrite ler_addl rest_ge0.
- exact: weight_of_urn.
by rewrite ltr_paddr ?rest_ge0 //; exact: W0.
Qed.

(** The sum over cells, from which the forms of Lemma 7 follow. *)
Theorem bad_is_unlikely h : of_size n h ->
  probability resampling h (bad h) <= eta + \sum_c (if (0 < h c)%N then tail c (h c) else retention c * tail c 0).
Proof.
move=> hn; have W0 := weights_gt0 prior0 h.
have [c0 hc0] : exists c, (0 < h c)%N.
  apply/existsP; move: n0; apply: contraLR; rewrite negb_exists -hn => /forallP none.
  by rewrite -leqNgt leqn0 sum_nat_eq0; apply/forallP => c; rewrite -leqn0 leqNgt none.
have urn0 K (t : m.-tuple I) : 0 <= urn K (weights h) t.
  have W0' c := ltW (W0 c).
  rewrite urn_closed //; case: ifP => // _; apply: divr_ge0; first by apply: prodr_ge0 => c _; exact: rising_ge0.
  by apply/rising_ge0/sumr_ge0 => c _; exact: W0'.
rewrite /probability /resampling /Urn.resampling exchange_big /=.
rewrite (bigID light) /=; apply: ler_add.
  apply: le_trans (light_is_unlikely h); apply: ler_sum => K _; rewrite -mulr_sumr.
  have [cK|cK] := boolP (c0 \in K); last by rewrite /coins (coins_occupied _ hc0 cK) mul0r.
  have K0 : K != set0 by apply/set0Pn; exists c0.
  rewrite ler_pimulr ?coins0 // -[X in _ <= X](@sum_urn R I m K (weights h) W0 K0).
  by rewrite [X in _ <= X](bigID (bad h)) /= ler_addl sumr_ge0.
apply: (@le_trans _ _ (\sum_(K | ~~ light K) coins h K * (\sum_c (c \in K)%:R * tail c (h c)))).
  apply: ler_sum => K heavy; rewrite -mulr_sumr; have [e|ch] := eqVneq (coins h K) 0.
    by rewrite -[Urn.coins _ _ _]/(coins h K) e !mul0r.
  apply: ler_wpmul2l; first exact: coins0.
  apply: (@le_trans _ _ (\sum_c \sum_(t : m.-tuple I) (G < gain c (h c) (count_mem c t))%R%:R * urn K (weights h) t)).
    rewrite exchange_big [X in X <= _]big_mkcond /=; apply: ler_sum => t _; case: ifP => [/existsP[c bc]|_].
      rewrite (bigD1 c) //= bc mul1r ler_addl sumr_ge0 // => d _; by rewrite mulr_ge0 ?ler0n.
    by apply: sumr_ge0 => d _; rewrite mulr_ge0 ?ler0n.
  by apply: ler_sum => c _; exact: bad_cell.
apply: (@le_trans _ _ (\sum_K coins h K * (\sum_c (c \in K)%:R * tail c (h c)))).
  rewrite [X in _ <= X](bigID light) /= ler_addr sumr_ge0 // => K _.
  by rewrite mulr_ge0 ?coins0 // sumr_ge0 // => c _; rewrite mulr_ge0 ?ler0n ?tail_ge0.
rewrite (eq_bigr (fun K => \sum_c (c \in K)%:R * coins h K * tail c (h c))) => [|K _]; last first.
  by rewrite mulr_sumr; apply: eq_bigr => c _; rewrite mulrA [_ * (_ \in _)%:R]mulrC.
rewrite exchange_big /=; apply: ler_sum => c _; rewrite -mulr_suml.
have -> : \sum_(K : {set I}) (c \in K)%:R * coins h K = chance h c.
  by rewrite -in_the_urn [RHS]big_mkcond /=; apply: eq_bigr => K _; case: ifP; rewrite ?mul1r ?mul0r.
rewrite /chance; case: posnP => [->|_]; by rewrite ?mul1r.
Qed.

(** The three forms of Lemma 7. *)
Definition per_worker : R := \big[Num.max/0]_c \big[Num.max/0]_(x < n.+1 | (0 < x)%N) (tail c x / x%:R).
Definition empty_cells : R := \sum_c retention c * tail c 0.
Definition by_workers : R := n%:R * per_worker + empty_cells.
Definition by_cells : R :=
  \sum_c Num.max (retention c * tail c 0) (\big[Num.max/0]_(x < n.+1 | (0 < x)%N) tail c x).
(** ... over all ways to put at most n workers into cells. *)
Definition by_composition : R :=
  \big[Num.max/0]_(x : {ffun I -> 'I_n.+1} | (\sum_c x c <= n)%N)
    (\sum_(c | (0 < x c)%N) (tail c (x c) - retention c * tail c 0)) + empty_cells.
(** F; pools of at most 16 slots have the worst composition. *)
Definition failure : R := eta + Num.min (if (n <= 16)%N then by_composition else by_workers) by_cells.

Let size_le h c : of_size n h -> (h c < n.+1)%N.
Proof. by move=> hn; rewrite ltnS -hn (bigD1 c) //= leq_addr. Qed.

Let f0 c : 0 <= retention c. Proof. by case/andP: (retention01 c) => /ltW. Qed.

Lemma sum_by_workers h : of_size n h ->
  \sum_c (if (0 < h c)%N then tail c (h c) else retention c * tail c 0) <= by_workers.
Proof.
move=> hn; rewrite /by_workers /empty_cells -{1}hn natr_sum mulr_suml -big_split /=.
apply: ler_sum => c _; case: posnP => [->|hc]; first by rewrite mul0r add0r.
rewrite ler_paddr ?mulr_ge0 ?f0 ?tail_ge0 // mulrC -ler_pdivr_mulr ?ltr0n //.
apply: le_trans (@bigmax_ge R I predT _ 0 c isT).
exact: (@bigmax_ge R _ (fun x : 'I_n.+1 => (0 < x)%N) (fun x : 'I_n.+1 => tail c x / x%:R) 0 (Ordinal (size_le c hn)) hc).
Qed.

Lemma sum_by_cells h : of_size n h ->
  \sum_c (if (0 < h c)%N then tail c (h c) else retention c * tail c 0) <= by_cells.
Proof.
move=> hn; apply: ler_sum => c _; case: posnP => [_|hc]; rewrite le_maxr ?lexx //.
apply/orP; right.
exact: (@bigmax_ge R _ (fun x : 'I_n.+1 => (0 < x)%N) (fun x : 'I_n.+1 => tail c x) 0 (Ordinal (size_le c hn)) hc).
Qed.

Lemma sum_by_composition h : of_size n h ->
  \sum_c (if (0 < h c)%N then tail c (h c) else retention c * tail c 0) <= by_composition.
Proof.
move=> hn; pose x : {ffun I -> 'I_n.+1} := [ffun c => Ordinal (size_le c hn)].
have xh c : x c = h c :> nat by rewrite ffunE.
have xn : (\sum_c x c <= n)%N by rewrite (eq_bigr h) ?hn.
apply: (@le_trans _ _ (\sum_(c | (0 < x c)%N) (tail c (x c) - retention c * tail c 0) + empty_cells)).
  rewrite /empty_cells [X in _ <= X + _]big_mkcond -big_split /=; apply: ler_sum => c _; rewrite xh.
  by case: ifP => _; rewrite ?subrK ?add0r.
rewrite ler_add2r.
exact: (@bigmax_ge R _ (fun x : {ffun I -> 'I_n.+1} => (\sum_c x c <= n)%N)
  (fun x => \sum_(c | (0 < x c)%N) (tail c (x c) - retention c * tail c 0)) 0 x xn).
Qed.

(** Lemma 7. *)
Theorem failure_bound h : of_size n h -> probability resampling h (bad h) <= failure.
Proof.
move=> hn; apply: le_trans (bad_is_unlikely hn) _; rewrite ler_add2l le_minr sum_by_cells // andbT.
by case: ifP => _; [exact: sum_by_composition | exact: sum_by_workers].
Qed.

(** The loss outside the bad outputs: Lemmas 1 and 2 together. *)
Theorem loss_unless_bad h h' t : of_size n h -> neighbour h h' -> ~~ bad h t ->
  resampling h t <= G * pruning_gain prior retention m n * resampling h' t /\
  resampling h' t <= G * pruning_gain prior retention m n * resampling h t.
Proof.
move=> hn nb; rewrite negb_exists => /forallP fine; have [i [j mv]] := nb.
have hn' := moved_size mv hn; have mv' := moved_sym mv.
have D0 := D_gt0 prior0 retention01 m t mv; have D0' := D_gt0 prior0 retention01 m t mv'.
have ok c : gain c (h c) (count_mem c t) <= G by rewrite leNgt fine.
have [one two] := block_loss prior0 retention01 t mv.
have V := pruning_loss prior0 retention01 m t hn nb.
have V' := pruning_loss prior0 retention01 m t hn' (neighbour_sym nb).
have [P0 _] := @resampling_is_a_mechanism R I prior retention m prior0 retention01 n n0 h hn.
have [P0' _] := @resampling_is_a_mechanism R I prior retention m prior0 retention01 n n0 h' hn'.
have G0 : 0 <= G by exact: le_trans ler01 G1.
split.
  rewrite -(ler_pmul2r D0'); apply: le_trans one _.
  apply: (@le_trans _ _ (G * (resampling h' t * Urn.D prior retention m h t))).
    by rewrite ler_wpmul2r ?ok // mulr_ge0 ?P0' // ltW.
  rewrite -!mulrA ler_wpmul2l // mulrCA [X in _ <= X]mulrCA.
  by rewrite [X in _ <= X]mulrCA ler_wpmul2l ?P0'.
rewrite -(ler_pmul2r D0); apply: le_trans two _.
apply: (@le_trans _ _ (G * (resampling h t * Urn.D prior retention m h' t))).
  by rewrite ler_wpmul2r ?ok // mulr_ge0 ?P0 // ltW.
by rewrite -!mulrA ler_wpmul2l // [X in _ <= X]mulrCA ler_wpmul2l ?P0.
Qed.

(** The theorem about a pool: it is (U + V, F)-pdp, whatever its data. *)
Theorem pool_pdp : pdp (of_size n) (@neighbour I) resampling (G * pruning_gain prior retention m n) failure.
Proof.
move=> h hn; exists (bad h); first exact: failure_bound.
by move=> h' t hn' nb nB; apply: loss_unless_bad.
Qed.

End Failure.

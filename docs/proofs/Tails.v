(** * Lemmas 3 and 5: draws from one cell of an urn. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From OdsynthProofs Require Import Basics Mixtures Urn.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section BetaBinomial.
Variable R : realFieldType.
Implicit Types (w b W x : R) (phi : nat -> R) (m s t : nat).

(** P(s), s ~ BetaBinomial(m, w, b). *)
Definition beta_binomial m w b s : R := 'C(m, s)%:R * rising w s * rising b (m - s) / rising (w + b) m.

(** The expectation of phi(draws from a cell of weight w) in m draws from an urn of weight W, one after the other. *)
Fixpoint draws m w W phi : R :=
  if m is m'.+1 then w / W * draws m' (w + 1) (W + 1) (fun s => phi s.+1) + (1 - w / W) * draws m' w (W + 1) phi
  else phi 0%N.

Theorem draws_beta_binomial m w b phi : 0 < w -> 0 <= b ->
  draws m w (w + b) phi = \sum_(s < m.+1) beta_binomial m w b s * phi s.
Proof.
elim: m w b phi => [|m ih] w b phi w0 b0 /=.
  by rewrite big_ord1 /beta_binomial bin0 subn0 !rising0 !mulr1 divr1 mul1r.
have W0 : 0 < w + b by rewrite ltr_paddr.
have -> : w + b + 1 = w + 1 + b by ring.
rewrite ih ?ltr_paddr ?ler01 //; have -> : w + 1 + b = w + (b + 1) by ring.
rewrite ih ?addr_ge0 ?ler01 //.
pose X s := rising w s * rising b (m.+1 - s) * phi s.
have r1 : rising (w + b + 1) m != 0 by rewrite gt_eqF // rising_gt0 // ltr_paddr ?ler01.
have Wn : w + b != 0 by rewrite gt_eqF.
transitivity ((\sum_(s < m.+2) 'C(m.+1, s)%:R * X s) / rising (w + b) m.+1); last first.
  by rewrite mulr_suml; apply: eq_bigr => s _; rewrite /beta_binomial /X; ring.
have split_sum : \sum_(s < m.+2) 'C(m.+1, s)%:R * X s
    = \sum_(s < m.+1) 'C(m, s)%:R * X s.+1 + \sum_(s < m.+1) 'C(m, s)%:R * X s.
  rewrite big_ord_recl /= bin0 mul1r.
  rewrite (eq_bigr (fun s : 'I_m.+1 => 'C(m, s)%:R * X s.+1 + 'C(m, s.+1)%:R * X s.+1)) => [|s _]; last first.
    by rewrite /bump /= add1n binS natrD mulrDl addrC.
  rewrite big_split /= addrCA; congr (_ + _).
  rewrite [RHS]big_ord_recl /= bin0 mul1r; congr (_ + _).
  rewrite big_ord_recr /= bin_small ?ltnSn // mul0r addr0; apply: eq_bigr => s _.
  by rewrite /bump /= add1n.
rewrite split_sum risingS [RHS]mulrDl !mulr_sumr !mulr_suml.
have e1 : w + 1 + b = w + b + 1 by ring.
have e2 : w + (b + 1) = w + b + 1 by ring.
congr (_ + _); apply: eq_bigr => s _; rewrite /beta_binomial /X ?e1 ?e2.
  by rewrite [rising w s.+1]risingS subSS; field; rewrite Wn r1.
have sm : (s <= m)%N by rewrite -ltnS ltn_ord.
by rewrite (subSn sm) [rising b _.+1]risingS; field; rewrite Wn r1.
Qed.

(** Tails grow with the number of draws and with the weight of the cell, and fall with the weight of the urn. *)
Definition rises phi := forall s t, (s <= t)%N -> phi s <= phi t.

Lemma rises_next phi : rises phi -> rises (fun s => phi s.+1).
Proof. by move=> up s t st; apply: up. Qed.

Let part w W : 0 <= w -> w <= W -> 0 < W -> 0 <= w / W <= 1.
Proof. by move=> w0 wW W0; rewrite divr_ge0 ?(ltW W0) //= ler_pdivr_mulr // mul1r. Qed.

Lemma average_le (p q x y x' y' : R) : 0 <= p <= 1 -> p <= q -> x <= x' -> y <= y' -> y' <= x' ->
  p * x + (1 - p) * y <= q * x' + (1 - q) * y'.
Proof.
case/andP=> p0 p1 pq xx yy yx; apply: (@le_trans _ _ (p * x' + (1 - p) * y')).
  by rewrite ler_add // ler_wpmul2l // subr_ge0.
rewrite -subr_ge0.
have -> : q * x' + (1 - q) * y' - (p * x' + (1 - p) * y') = (q - p) * (x' - y') by ring.
by rewrite mulr_ge0 // subr_ge0.
Qed.

Lemma draws_phi m w W phi psi : 0 <= w -> w <= W -> 0 < W -> (forall s, phi s <= psi s) ->
  draws m w W phi <= draws m w W psi.
Proof.
elim: m w W phi psi => [|m ih] w W phi psi w0 wW W0 le /=; first exact: le.
have /andP[p0 p1] := part w0 wW W0; have W1 : 0 < W + 1 by rewrite ltr_paddr ?ler01.
by rewrite ler_add // ler_wpmul2l ?subr_ge0 // ih ?addr_ge0 ?ler01 ?ler_add2r ?ler_paddr ?ler01.
Qed.

Theorem draws_weight_of_cell m w w' W phi : rises phi -> 0 <= w -> w <= w' -> w' <= W -> 0 < W ->
  draws m w W phi <= draws m w' W phi.
Proof.
elim: m w w' W phi => [|m ih] w w' W phi up w0 ww wW W0 //=.
have W1 : 0 < W + 1 by rewrite ltr_paddr ?ler01.
have w0' : 0 <= w' by exact: le_trans ww.
apply: average_le.
- exact: part (le_trans ww wW) W0.
- by rewrite ler_pmul2r ?invr_gt0.
- by rewrite ih ?addr_ge0 ?ler01 ?ler_add2r //; exact: rises_next.
- by rewrite ih // ler_paddr ?ler01.
apply: (@le_trans _ _ (draws m (w' + 1) (W + 1) phi)).
  by rewrite ih ?ler_add2r // ler_addl ler01.
by rewrite draws_phi ?addr_ge0 ?ler01 ?ler_add2r // => s; apply: up.
Qed.

Theorem draws_weight_of_urn m w W W' phi : rises phi -> 0 <= w -> w <= W -> W <= W' -> 0 < W ->
  draws m w W' phi <= draws m w W phi.
Proof.
elim: m w W W' phi => [|m ih] w W W' phi up w0 wW WW W0 //=.
have W1 : 0 < W + 1 by rewrite ltr_paddr ?ler01.
have W0' : 0 < W' by exact: lt_le_trans WW.
have wW' : w <= W' by exact: le_trans WW.
apply: average_le.
- exact: part.
- by rewrite ler_wpmul2l // lef_pinv.
- by rewrite ih ?addr_ge0 ?ler01 ?ler_add2r //; exact: rises_next.
- by rewrite ih ?ler_add2r // ler_paddr ?ler01.
apply: (@le_trans _ _ (draws m (w + 1) (W + 1) phi)).
  by rewrite draws_weight_of_cell ?ler_add2r // ler_addl ler01.
by rewrite draws_phi ?addr_ge0 ?ler01 ?ler_add2r // => s; apply: up.
Qed.

Theorem draws_number m w W phi : rises phi -> 0 <= w -> w <= W -> 0 < W -> draws m w W phi <= draws m.+1 w W phi.
Proof.
elim: m w W phi => [|m ih] w W phi up w0 wW W0.
  have /andP[p0 p1] := part w0 wW W0; rewrite /= -subr_ge0.
  have -> : w / W * phi 1%N + (1 - w / W) * phi 0%N - phi 0%N = w / W * (phi 1%N - phi 0%N) by ring.
  by rewrite mulr_ge0 // subr_ge0 up.
have W1 : 0 < W + 1 by rewrite ltr_paddr ?ler01.
have /andP[p0 p1] := part w0 wW W0.
rewrite /= -/(draws m.+1) ler_add // ler_wpmul2l ?subr_ge0 //.
  by apply: ih => //; rewrite ?addr_ge0 ?ler01 ?ler_add2r //; exact: rises_next.
by apply: ih => //; rewrite ler_paddr ?ler01.
Qed.

Lemma draws_const m w W x : draws m w W (fun=> x) = x.
Proof. by elim: m w W => [|m ih] w W //=; rewrite !ih; ring. Qed.

Lemma draws_ge0 m w W phi : 0 <= w -> w <= W -> 0 < W -> (forall s, 0 <= phi s) -> 0 <= draws m w W phi.
Proof. by move=> w0 wW W0 p0; rewrite -(draws_const m w W 0) draws_phi. Qed.

(** Lemma 5. From s on, each mass is at most r times the one before, r the first factor of the ratio times the larger
    of 1 and the second; so all after s add up to p(s) r / (1 - r) at most. *)
Definition first_factor m b s : R := (m - s)%:R / ((m - s)%:R - 1 + b).
Definition second_factor w s : R := (w + s%:R) / s.+1%:R.

Let bottom_gt0 (k : nat) b : 1 <= b -> 0 < k.+1%:R - 1 + b.
Proof. by move=> b1; rewrite -[k.+1]addn1 natrD addrK ltr_paddl ?ler0n // (lt_le_trans _ b1) ?ltr01. Qed.

Theorem beta_binomial_next m w b s : 0 < w -> 1 <= b -> (s < m)%N ->
  beta_binomial m w b s.+1 = first_factor m b s * second_factor w s * beta_binomial m w b s.
Proof.
move=> w0 b1 sm; rewrite /beta_binomial /first_factor /second_factor.
have -> : (m - s = (m - s.+1).+1)%N by rewrite subnSK.
set k := (m - s.+1)%N; have D0 := bottom_gt0 k b1.
have bin : s.+1%:R * 'C(m, s.+1)%:R = k.+1%:R * 'C(m, s)%:R :> R.
  by rewrite -!natrM mul_bin_left /k subnSK.
have s0 : s.+1%:R != 0 :> R by rewrite pnatr_eq0.
have -> : 'C(m, s.+1)%:R = k.+1%:R * 'C(m, s)%:R / s.+1%:R :> R by rewrite -bin mulrC mulKf.
have e : k.+1%:R - 1 + b = b + k%:R by rewrite -[k.+1]addn1 natrD addrK addrC.
rewrite !risingSr e; rewrite e in D0; move: (rising (w + b) m)^-1 (rising w s) (rising b k) => x y z.
have Dn : b + k%:R != 0 by rewrite gt_eqF.
move: k%:R k.+1%:R s.+1%:R s%:R 'C(m, s)%:R Dn s0 => k0 k1 s1 s2 C Dn s0.
by field; rewrite Dn s0.
Qed.

Lemma first_factor_falls m b s t : 1 <= b -> (s <= t)%N -> (t < m)%N -> first_factor m b t <= first_factor m b s.
Proof.
move=> b1 st tm; rewrite /first_factor.
have -> : (m - s = (m - s.+1).+1)%N by rewrite subnSK // (leq_ltn_trans st).
have -> : (m - t = (m - t.+1).+1)%N by rewrite subnSK.
have le : (m - t.+1 <= m - s.+1)%N by apply: leq_sub2l.
rewrite ler_pdivr_mulr ?bottom_gt0 // mulrAC ler_pdivl_mulr ?bottom_gt0 // -subr_ge0.
move: le; move: (m - t.+1)%N (m - s.+1)%N => k l le.
have -> : l.+1%:R * (k.+1%:R - 1 + b) - k.+1%:R * (l.+1%:R - 1 + b) = (b - 1) * (l.+1%:R - k.+1%:R) by ring.
by rewrite mulr_ge0 ?subr_ge0 // ler_nat.
Qed.

Lemma second_factor_le w s t : (s <= t)%N -> 0 < w -> second_factor w t <= Num.max 1 (second_factor w s).
Proof.
move=> st w0; rewrite le_maxr /second_factor; have [w1|w1] := leP w 1.
  by rewrite ler_pdivr_mulr ?ltr0n // mul1r -[t.+1]addn1 natrD addrC ler_add2l w1.
apply/orP; right; rewrite ler_pdivr_mulr ?ltr0n // mulrAC ler_pdivl_mulr ?ltr0n // -subr_ge0.
have -> : (w + s%:R) * t.+1%:R - (w + t%:R) * s.+1%:R = (w - 1) * (t%:R - s%:R) by rewrite !mulrS; ring.
by rewrite mulr_ge0 ?subr_ge0 ?ler_nat // ltW.
Qed.

Lemma beta_binomial_ge0 m w b s : 0 < w -> 0 < b -> 0 <= beta_binomial m w b s.
Proof.
by move=> w0 b0; rewrite divr_ge0 ?mulr_ge0 ?ler0n ?rising_ge0 ?ltW // addr_gt0.
Qed.

Theorem tail_by_ratios m w b s (k : nat) : 0 < w -> 1 <= b -> (s + k <= m)%N ->
  let r := first_factor m b s * Num.max 1 (second_factor w s) in r < 1 ->
  \sum_(i < k) beta_binomial m w b (s + i.+1)%N <= beta_binomial m w b s * (r / (1 - r)).
Proof.
move=> w0 b1 skm r r1; have b0 : 0 < b by exact: lt_le_trans b1.
have p0 i := beta_binomial_ge0 m i w0 b0.
have f0 i : (i < m)%N -> 0 <= first_factor m b i.
  move=> im; rewrite /first_factor (_ : (m - i = (m - i.+1).+1)%N); last by rewrite subnSK.
  by rewrite divr_ge0 ?ler0n // ltW // bottom_gt0.
have x0 : 0 <= Num.max 1 (second_factor w s) by rewrite le_maxr ler01.
case: k skm => [|k] skm.
  rewrite big_ord0; have [sm|ms] := ltnP s m.
    by rewrite mulr_ge0 // divr_ge0 ?subr_ge0 ?(ltW r1) // mulr_ge0 // f0.
  by rewrite /r /first_factor (eqP (_ : m - s == 0)%N) ?subn_eq0 // !mul0r mulr0.
have sm : (s < m)%N by apply: leq_trans skm; rewrite addnS ltnS leq_addr.
have r0 : 0 <= r by rewrite mulr_ge0 // f0.
have q0 : 0 < 1 - r by rewrite subr_gt0.
have power i : (i <= k.+1)%N -> beta_binomial m w b (s + i) <= beta_binomial m w b s * r ^+ i.
  elim: i => [|i ih] ik; first by rewrite addn0 expr0 mulr1.
  have im : (s + i < m)%N by rewrite -addnS; apply: leq_trans skm; rewrite leq_add2l.
  rewrite addnS beta_binomial_next // exprS [X in _ <= X]mulrCA.
  apply: ler_pmul; [| exact: p0 | | exact: ih (ltnW ik)].
    by rewrite mulr_ge0 ?f0 // divr_ge0 ?ler0n // addr_ge0 ?ler0n // ltW.
  apply: ler_pmul; rewrite ?f0 //.
  - by rewrite divr_ge0 ?ler0n // addr_ge0 ?ler0n // ltW.
  - by apply: first_factor_falls => //; exact: leq_addr.
  by apply: second_factor_le => //; exact: leq_addr.
apply: (@le_trans _ _ (\sum_(i < k.+1) beta_binomial m w b s * r ^+ i.+1)).
  by apply: ler_sum => i _; apply: power.
rewrite -mulr_sumr ler_wpmul2l // ler_pdivl_mulr //.
have -> : (\sum_(i < k.+1) r ^+ i.+1) * (1 - r) = r - r ^+ k.+2.
  elim: (k.+1) => [|l ih]; first by rewrite big_ord0 mul0r expr1 subrr.
  by rewrite big_ord_recr /= mulrDl ih !exprS; ring.
by rewrite ler_subl_addr ler_addl exprn_ge0.
Qed.

End BetaBinomial.

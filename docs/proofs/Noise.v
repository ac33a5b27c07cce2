(** * Lemmas 19, 20, 28 and 33: two-sided geometric noise over several measured tables. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From mathcomp Require Import zify.
From OdsynthProofs Require Import Basics.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Noise.
Variable R : realFieldType.
Implicit Types (p : R) (z d : int).

(** P(z) = (1 - p)/(1 + p) p^|z|. *)
Definition noise p z : R := (1 - p) / (1 + p) * p ^+ `|z|%N.

Lemma noise_gt0 p z : 0 < p < 1 -> 0 < noise p z.
Proof.
case/andP=> p0 p1; rewrite mulr_gt0 ?exprn_gt0 // divr_gt0 ?subr_gt0 //.
by rewrite addr_gt0 ?ltr01.
Qed.

(** Lemma 19, that these add up to 1: those up to N are short of it by 2 p^(N+1) / (1 + p). *)
Theorem noise_adds_up p N : 0 < p < 1 ->
  noise p 0 + \sum_(z < N) (noise p z.+1%:Z + noise p (- z.+1%:Z)) = 1 - 2%:R * p ^+ N.+1 / (1 + p).
Proof.
case/andP=> p0 p1; have n0 : 1 + p != 0 by rewrite gt_eqF // addr_gt0 ?ltr01.
elim: N => [|N ih].
  by rewrite big_ord0 addr0 /noise absz0 expr0 expr1; field.
rewrite big_ord_recr /= addrA ih /noise abszN absz_nat !exprS; field.
by [].
Qed.

Lemma weight0 p : 0 < p < 1 -> 0 <= (1 - p) / (1 + p).
Proof. by case/andP=> p0 p1; rewrite divr_ge0 ?subr_ge0 ?ltW // addr_gt0 ?ltr01. Qed.

(** A count that changes by one. *)
Lemma noise_step p z d : 0 < p < 1 -> (`|d|%N <= 1)%N -> p * noise p z <= noise p (z - d).
Proof.
move=> p01 d1; have /andP[p0 p1] := p01; rewrite /noise mulrCA ler_wpmul2l ?weight0 //.
by rewrite -exprS; apply: ler_wiexpn2l; rewrite ?ltW //; lia.
Qed.

Section Counts.
Variable T : finType.
Implicit Types (u v y : T -> int).

(** Noisy counts y of true counts v. *)
Definition noisy_counts p v y : R := \prod_c noise p (y c - v c).

Lemma noisy_counts_ge0 p v y : 0 < p < 1 -> 0 <= noisy_counts p v y.
Proof. by move=> p01; apply: prodr_ge0 => c _; exact/ltW/noise_gt0. Qed.

Lemma counts_step p u v y c : 0 < p < 1 -> (forall e, e != c -> u e = v e) -> (`|u c - v c|%N <= 1)%N ->
  p * noisy_counts p u y <= noisy_counts p v y.
Proof.
move=> p01 same one; rewrite /noisy_counts (bigD1 c) //= [X in _ <= X](bigD1 c) //= mulrA.
have -> : \prod_(d | d != c) noise p (y d - u d) = \prod_(d | d != c) noise p (y d - v d).
  by apply: eq_bigr => d dc; rewrite same.
rewrite ler_wpmul2r //; first by apply: prodr_ge0 => d _; exact/ltW/noise_gt0.
have -> : y c - v c = y c - u c - (v c - u c) by rewrite opprB addrA subrK.
by apply: noise_step => //; rewrite distnC.
Qed.

Lemma counts_same p u v y : u =1 v -> noisy_counts p u y = noisy_counts p v y.
Proof. by move=> same; apply: eq_bigr => c _; rewrite same. Qed.

(** Lemma 20, that the loss of 2 ln(1/p) is met. *)
Theorem noise_loss_met p u v y i j : 0 < p < 1 -> i != j -> v i = u i - 1 -> v j = u j + 1 ->
  (forall c, c != i -> c != j -> v c = u c) -> u i <= y i -> y j <= u j ->
  noisy_counts p v y = p ^+ 2 * noisy_counts p u y.
Proof.
move=> p01 ij vi vj same ui uj; rewrite /noisy_counts (bigD1 i) //= (bigD1 j) /= 1?eq_sym //.
rewrite [\prod_c noise p (y c - u c)](bigD1 i) //= [\prod_(c | c != i) noise p (y c - u c)](bigD1 j) /= 1?eq_sym //.
have -> : \prod_(c | (c != i) && (c != j)) noise p (y c - v c) = \prod_(c | (c != i) && (c != j)) noise p (y c - u c).
  by apply: eq_bigr => c /andP[ci cj]; rewrite same.
have -> : noise p (y i - v i) = p * noise p (y i - u i).
  rewrite /noise mulrCA -exprS vi; congr (_ * _ ^+ _); lia.
have -> : noise p (y j - v j) = p * noise p (y j - u j).
  rewrite /noise mulrCA -exprS vj; congr (_ * _ ^+ _); lia.
by rewrite expr2; move: (noise _ _) (noise _ _) (\prod_(_ | _) _) => A B C; ring.
Qed.

End Counts.
End Noise.

(** ** Records, and the tables that count them *)

Section Tables.
Variables (R : realFieldType) (Record Block : finType).
(** Measured tables: groups and cells of each, its ratio. A record is in at most one group of a table, by what is
    public of it; the cell is one of the group, by the home. *)
Variables (Table : finType) (Group Cell : Table -> finType).
Variables (group : forall k, Record -> option (Group k)) (cell : forall k, Group k -> Block -> Cell k).
Variable p : Table -> R.
Hypothesis p01 : forall k, 0 < p k < 1.

(** An input: the records that there are, and their homes. *)
Implicit Types (present : {set Record}) (home : Record -> Block).
Definition input := ({set Record} * (Record -> Block))%type.

Definition count (x : input) k (gc : Group k * Cell k) : int :=
  #|[set r in x.1 | (group k r == Some gc.1) && (cell gc.1 (x.2 r) == gc.2)]|%:Z.
Arguments count : clear implicits.

Definition output := forall k, Group k * Cell k -> int.

(** The probability of all noisy counts: the noise of all counts of all tables is independent. *)
Definition measured (x : input) (y : output) : R := \prod_k noisy_counts (p k) (count x k) (y k).

(** Neighbours of the first kind: one record has another home. *)
Definition other_home (x x' : input) := x.1 = x'.1 /\ exists r, forall q, q != r -> x.2 q = x'.2 q.
(** Neighbours of the second kind: x' has one record more. *)
Definition one_more (x x' : input) := x.2 = x'.2 /\ exists2 r, r \notin x.1 & x'.1 = r |: x.1.

Lemma count_one r (x x' : input) k : r \notin x.1 -> x'.1 = r |: x.1 -> (forall q, q != r -> x.2 q = x'.2 q) ->
  forall gc, count x' k gc = count x k gc + ((group k r == Some gc.1) && (cell gc.1 (x'.2 r) == gc.2))%:Z.
Proof.
move=> rx e same gc; rewrite /count e.
set A := [set _ in x.1 | _]; set b := _ && _.
have rA : r \notin A by rewrite inE (negPf rx).
have -> : [set q in r |: x.1 | (group k q == Some gc.1) && (cell gc.1 (x'.2 q) == gc.2)] = if b then r |: A else A.
  apply/setP => q; rewrite !inE; have [->|qr] := eqVneq q r.
    by rewrite -/b /=; case: b; rewrite !inE ?eqxx // (negPf rx).
  rewrite /= -same //; by case: b; rewrite !inE ?(negPf qr).
by case: b; rewrite ?cardsU1 ?rA /= ?addr0 // -PoszD addnC.
Qed.

Lemma table_step r (x x' : input) k y : r \notin x.1 -> x'.1 = r |: x.1 -> (forall q, q != r -> x.2 q = x'.2 q) ->
  p k * noisy_counts (p k) (count x k) y <= noisy_counts (p k) (count x' k) y /\
  p k * noisy_counts (p k) (count x' k) y <= noisy_counts (p k) (count x k) y.
Proof.
move=> rx e same; have c1 := @count_one r x x' k rx e same; have /andP[p0 p1] := p01 k.
case g : (group k r) c1 => [g0|] c1; last first.
  rewrite (@counts_same _ _ (p k) (count x' k) (count x k)) => [|gc]; last by rewrite c1 addr0.
  by split; rewrite ler_pimull ?noisy_counts_ge0 // ltW.
pose c0 := (g0, cell g0 (x'.2 r)).
have far gc : gc != c0 -> count x' k gc = count x k gc.
  case: gc => g' c'; rewrite xpair_eqE negb_and => ne; rewrite c1 /=.
  have [eg|/negPf ng] := eqVneq g0 g'; last first.
    by rewrite (_ : (Some g0 == Some g') = false) ?addr0.
  subst g'; rewrite eqxx /= eq_sym in ne.
  by rewrite (negPf ne) andbF addr0.
have near : (`|count x' k c0 - count x k c0|%N <= 1)%N.
  by rewrite c1 addrC addKr; case: (_ && _).
split; last by apply: (@counts_step _ _ _ _ _ _ c0) => // gc ne; rewrite far.
apply: (@counts_step _ _ _ _ _ _ c0) => // [gc ne|]; first by rewrite far.
by rewrite -abszN opprB.
Qed.

Lemma measured_ge0 x y : 0 <= measured x y.
Proof. by apply: prodr_ge0 => k _; exact: noisy_counts_ge0. Qed.

Lemma prod_step (A B q : Table -> R) : (forall k, 0 <= A k) -> (forall k, 0 <= q k) -> (forall k, q k * A k <= B k) ->
  (\prod_k q k) * \prod_k A k <= \prod_k B k.
Proof.
by move=> A0 q0 le; rewrite -big_split /=; apply: ler_prod => k _; rewrite mulr_ge0 ?le.
Qed.

(** Lemma 28, of every table and all together: one record more. *)
Theorem presence_loss x x' y : one_more x x' ->
  (\prod_k p k) * measured x y <= measured x' y /\ (\prod_k p k) * measured x' y <= measured x y.
Proof.
case=> homes [r rx e]; have same q : q != r -> x.2 q = x'.2 q by rewrite homes.
have p0 k : 0 <= p k by case/andP: (p01 k) => /ltW.
by split; apply: prod_step => // k; rewrite ?noisy_counts_ge0 //; case: (table_step (y k) rx e same).
Qed.

(** Lemma 33: another home of one record. [\prod_k p k ^+ 2] is e^-eps, eps = sum_k 2 ln(1/p_k). *)
Theorem tables_loss x x' y : other_home x x' ->
  (\prod_k p k ^+ 2) * measured x y <= measured x' y /\ (\prod_k p k ^+ 2) * measured x' y <= measured x y.
Proof.
suff half z z' : other_home z z' -> (\prod_k p k ^+ 2) * measured z y <= measured z' y.
  move=> oh; split; first exact: half.
  by apply: half; case: oh => e [r same]; split=> //; exists r => q qr; rewrite same.
case=> e [r same].
have p0 k : 0 <= p k by case/andP: (p01 k) => /ltW.
have [rz|rz] := boolP (r \in z.1); last first.
  have -> : measured z' y = measured z y.
    apply: eq_bigr => k _; apply: counts_same => gc; rewrite /count -e; congr (Posz #|pred_of_set _|).
    by apply/setP => q; rewrite !inE; have [->|qr] := eqVneq q r; rewrite ?(negPf rz) // same.
  rewrite ler_pimull ?measured_ge0 //.
  apply: (@le_trans _ _ (\prod_(k : Table) 1)); last by rewrite big1_eq.
  apply: ler_prod => k _.
  by rewrite exprn_ge0 //= exprn_ile1 //; case/andP: (p01 k) => _ /ltW.
(* by way of the input without the record *)
pose w : input := (z.1 :\ r, z.2).
have rw : r \notin w.1 by rewrite !inE eqxx.
have ew : z.1 = r |: w.1 by rewrite setD1K.
have ew' : z'.1 = r |: w.1 by rewrite -e.
rewrite (eq_bigr (fun k => p k * p k)) => [|k _]; last exact: expr2.
rewrite big_split /= -mulrA; apply: (@le_trans _ _ ((\prod_k p k) * measured w y)).
  rewrite ler_wpmul2l ?prodr_ge0 //; apply: prod_step => // k; rewrite ?noisy_counts_ge0 //.
  by case: (@table_step r w z k (y k) rw ew (fun _ _ => erefl)).
apply: prod_step => // k; rewrite ?noisy_counts_ge0 //.
by case: (@table_step r w z' k (y k) rw ew' same).
Qed.

(** The same of every finite set of outputs. *)
Theorem tables_dp x x' (A : seq output) : other_home x x' ->
  (\prod_k p k ^+ 2) * (\sum_(y <- A) measured x y) <= \sum_(y <- A) measured x' y.
Proof. by move=> oh; rewrite mulr_sumr; apply: ler_sum => y _; case: (tables_loss y oh). Qed.

(** Neighbours of the third kind: another record in the place of one, with whatever groups and home it has. *)
Definition other_record (x x' : input) := exists x0, one_more x0 x /\ one_more x0 x'.

(** Lemma 43: a whole record. *)
Theorem record_loss x x' y : other_record x x' ->
  (\prod_k p k ^+ 2) * measured x y <= measured x' y /\ (\prod_k p k ^+ 2) * measured x' y <= measured x y.
Proof.
have p0 : 0 <= \prod_k p k by apply: prodr_ge0 => k _; case/andP: (p01 k) => /ltW.
rewrite (eq_bigr (fun k => p k * p k)) => [|k _]; last exact: expr2.
rewrite big_split /= -!mulrA.
case=> x0 [/(presence_loss y) [a b] /(presence_loss y) [c d]]; split.
  by apply: le_trans c; rewrite ler_wpmul2l.
by apply: le_trans a; rewrite ler_wpmul2l.
Qed.

End Tables.

(** Lemma 43, where groups and cells of a table follow from noisy counts of others: for every finite set of outputs. *)
Section Adaptive.
Variables (R : realFieldType) (Record Block Table : finType) (Group Cell : Table -> finType) (p : Table -> R).
Hypothesis p01 : forall k, 0 < p k < 1.
Notation output := (output Group Cell).
Variables (group : output -> forall k, Record -> option (Group k)) (cell : output -> forall k, Group k -> Block -> Cell k).

Definition measured_in_turn x (y : output) : R := measured (group y) (cell y) p x y.

Theorem records_dp (x x' : input Record Block) (A : seq output) : other_record x x' ->
  (\prod_k p k ^+ 2) * (\sum_(y <- A) measured_in_turn x y) <= \sum_(y <- A) measured_in_turn x' y.
Proof.
by move=> nb; rewrite mulr_sumr; apply: ler_sum => y _; case: (record_loss (group y) (cell y) p01 y nb).
Qed.

Theorem presence_dp (x x' : input Record Block) (A : seq output) : one_more x x' \/ one_more x' x ->
  (\prod_k p k) * (\sum_(y <- A) measured_in_turn x y) <= \sum_(y <- A) measured_in_turn x' y.
Proof.
move=> nb; rewrite mulr_sumr; apply: ler_sum => y _.
by case: nb => /(presence_loss (group y) (cell y) p01 y) [].
Qed.
End Adaptive.

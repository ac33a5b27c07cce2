(** * Distributions, guarantees, and products x (x+1) ... (x+s-1).

    Everything is over an arbitrary ordered field R, the rational numbers among them: no logarithm, no limit, no
    integral. Where docs/privacy.md has eps, there is a number E here, which stands for e^eps. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Guarantees.
Variables (R : realFieldType) (X : Type) (O : finType).
(** Inputs that there may be, and which of them are neighbours. *)
Variables (valid : X -> Prop) (neighbour : X -> X -> Prop).
(** The mechanism: [P h y] is the probability of the output y for the input h. *)
Variable P : X -> O -> R.

Definition probability (h : X) (A : pred O) : R := \sum_(y | A y) P h y.

Definition is_mechanism := forall h, valid h -> (forall y, 0 <= P h y) /\ \sum_y P h y = 1.

(** (eps, delta)-probabilistically differentially private, E = e^eps. *)
Definition pdp (E delta : R) :=
  forall h, valid h -> exists2 B : pred O, probability h B <= delta &
    forall h' y, valid h' -> neighbour h h' -> ~~ B y -> P h y <= E * P h' y /\ P h' y <= E * P h y.

(** (eps, delta)-differentially private, E = e^eps. *)
Definition dp (E delta : R) :=
  forall h h', valid h -> valid h' -> neighbour h h' ->
    forall A : pred O, probability h A <= E * probability h' A + delta.

Lemma pdp_dp E delta : is_mechanism -> 0 <= E -> pdp E delta -> dp E delta.
Proof.
move=> mech E0 pd h h' vh vh' nb A; have [B small ratio] := pd h vh.
have [P0 _] := mech h vh; have [P0' _] := mech h' vh'.
rewrite /probability (bigID B) /= addrC; apply: ler_add.
  rewrite mulr_sumr [X in _ <= X](bigID B) /=.
  apply: (@le_trans _ _ (\sum_(y | A y && ~~ B y) E * P h' y)).
    by apply: ler_sum => y /andP[_ nB]; case: (ratio h' y vh' nb nB).
  by rewrite ler_addr sumr_ge0 // => y _; rewrite mulr_ge0.
apply: le_trans small; rewrite /probability [X in _ <= X](bigID A) /=.
rewrite (eq_bigl (fun y => B y && A y)) => [|y]; last exact: andbC.
by rewrite ler_addl sumr_ge0.
Qed.

Lemma pdp_weaken E E' delta delta' : is_mechanism -> E <= E' -> delta <= delta' -> pdp E delta -> pdp E' delta'.
Proof.
move=> mech EE dd pd h vh; have [B small ratio] := pd h vh; exists B; first exact: le_trans dd.
move=> h' y vh' nb nB; have [one two] := ratio h' y vh' nb nB.
have [P0 _] := mech h vh; have [P0' _] := mech h' vh'.
by split; [apply: le_trans one _ | apply: le_trans two _]; rewrite ler_wpmul2r.
Qed.

End Guarantees.

Section Rising.
Variable R : realFieldType.
Implicit Types (x y : R) (s m : nat).

(** x^(s) of docs/privacy.md. *)
Definition rising x s : R := \prod_(t < s) (x + t%:R).

Lemma rising0 x : rising x 0 = 1. Proof. by rewrite /rising big_ord0. Qed.

Lemma risingSr x s : rising x s.+1 = rising x s * (x + s%:R).
Proof. by rewrite /rising big_ord_recr. Qed.

Lemma risingS x s : rising x s.+1 = x * rising (x + 1) s.
Proof.
rewrite /rising big_ord_recl addr0; congr (_ * _); apply: eq_bigr => t _.
by rewrite lift0 mulrS addrA.
Qed.

Lemma rising_ge0 x s : 0 <= x -> 0 <= rising x s.
Proof. by move=> x0; rewrite prodr_ge0 // => t _; rewrite addr_ge0 // ler0n. Qed.

Lemma rising_gt0 x s : 0 < x -> 0 < rising x s.
Proof. by move=> x0; rewrite prodr_gt0 // => t _; rewrite ltr_paddr // ler0n. Qed.

Lemma rising_le x y s : 0 <= x -> x <= y -> rising x s <= rising y s.
Proof.
move=> x0 xy; rewrite /rising ler_prod // => t _.
by rewrite addr_ge0 ?ler0n //= ler_add2r.
Qed.

(** What telescopes in the proof of Lemma 1. *)
Lemma rising_ratio x s : x * rising (x + 1) s = (x + s%:R) * rising x s.
Proof. by rewrite -risingS risingSr mulrC. Qed.

End Rising.

Section Largest.
Variables (R : realFieldType) (T : finType).
Implicit Types (P : pred T) (F : T -> R).

Lemma bigmax_ge P F x0 i : P i -> F i <= \big[Num.max/x0]_(j | P j) F j.
Proof.
move=> Pi; have : i \in index_enum T by exact: mem_index_enum.
elim: (index_enum T) => // j r ih; rewrite inE big_cons => /predU1P[<-|/ih le].
  by rewrite Pi le_maxr lexx.
by case: ifP => _ //; rewrite le_maxr le orbT.
Qed.

Lemma bigmax_ge0 P F x0 : x0 <= \big[Num.max/x0]_(j | P j) F j.
Proof. by elim/big_rec: _ => // j x _ x1; rewrite le_maxr x1 orbT. Qed.

End Largest.

(** * Expectations over coins, for Lemma 2.

    The factor D(h) = E[1 / W^(m)] of the likelihood is an expectation over coins. [mixture] throws them one cell after
    another. The proof of docs/privacy.md writes 1 / W^(m) as an integral; here its place is taken by one inequality,
    [convex], which every mixture has: phi(w) / phi(w + u) does not grow with w. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From OdsynthProofs Require Import Basics.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Convex.
Variable R : realFieldType.
Implicit Types (phi : R -> R) (w u v x y a f : R).

(** Positive, falling, and phi(w) / phi(w + u) falls with w. *)
Definition convex phi :=
  [/\ forall w, 0 < w -> 0 < phi w,
      forall w u, 0 < w -> 0 <= u -> phi (w + u) <= phi w &
      forall w u v, 0 < w -> 0 <= u -> 0 <= v -> phi (w + u) * phi (w + v) <= phi w * phi (w + u + v)].

(** phi(w) / phi(w + u), compared without division: [flatter phi w psi x u] is phi(w)/phi(w+u) <= psi(x)/psi(x+u). *)
Definition flatter phi w psi x u := phi w * psi (x + u) <= psi x * phi (w + u).

Lemma convex_shift phi w x u : convex phi -> 0 < x -> x <= w -> 0 <= u -> flatter phi w phi x u.
Proof.
case=> _ _ lc x0 xw u0; have := lc x (w - x) u x0; rewrite subr_ge0 => /(_ xw u0).
have -> : x + (w - x) = w by ring.
by rewrite /flatter.
Qed.

(** Two copies of a convex function: what makes mixtures convex. *)
Lemma convex_cross phi x y u v : convex phi -> 0 < x -> 0 < y -> 0 <= u -> 0 <= v ->
  phi (x + u) * phi (y + v) + phi (y + u) * phi (x + v) <= phi x * phi (y + u + v) + phi y * phi (x + u + v).
Proof.
move=> cphi; wlog xy : x y / x <= y => [hw x0 y0 u0 v0|].
  have [/hw|/ltW/hw] := leP x y; first exact.
  by move=> /(_ y0 x0 u0 v0); rewrite addrC [X in _ <= X]addrC.
move=> x0 y0 u0 v0; have [pos fall lc] := cphi.
set A := phi x * phi (y + u + v); set B := phi y * phi (x + u + v).
set C := phi (x + u) * phi (y + v); set D := phi (y + u) * phi (x + v).
have A0 : 0 < A by rewrite mulr_gt0 ?pos // !ltr_paddr.
(* A is the largest of the four, and A B >= C D *)
have AC : C <= A.
  have := @convex_shift phi (y + v) x u cphi x0; rewrite /flatter ler_paddr // => /(_ isT u0).
  by rewrite /A /C -!addrA [v + u]addrC mulrC.
have AD : D <= A.
  have := @convex_shift phi (y + u) x v cphi x0; rewrite /flatter ler_paddr // => /(_ isT v0).
  by rewrite /A /D.
have ABCD : C * D <= A * B.
  have one := lc x u v x0 u0 v0; have two := lc y u v y0 u0 v0.
  have -> : C * D = (phi (x + u) * phi (x + v)) * (phi (y + u) * phi (y + v)) by rewrite /C /D; ring.
  have -> : A * B = (phi x * phi (x + u + v)) * (phi y * phi (y + u + v)) by rewrite /A /B; ring.
  by apply: ler_pmul => //; rewrite mulr_ge0 // ltW // pos // ltr_paddr.
rewrite -(ler_pmul2l A0) -subr_ge0.
have -> : A * (A + B) - A * (C + D) = (A - C) * (A - D) + (A * B - C * D) by ring.
by rewrite addr_ge0 ?mulr_ge0 // subr_ge0.
Qed.

(** A cell of weight a that is in the urn with probability f. *)
Definition coin f a phi : R -> R := fun w => f * phi (w + a) + (1 - f) * phi w.

Lemma coin_pos f a phi w : 0 <= f <= 1 -> 0 <= a -> (forall w, 0 < w -> 0 < phi w) -> 0 < w -> 0 < coin f a phi w.
Proof.
case/andP=> f0 f1 a0 pos w0; rewrite /coin.
have [->|fn] := eqVneq f 0; first by rewrite mul0r add0r subr0 mul1r pos.
by rewrite ltr_paddr ?mulr_ge0 ?subr_ge0 ?mulr_gt0 ?pos ?(ltW (pos _ _)) ?ltr_paddr // lt_def fn.
Qed.

Lemma coin_convex f a phi : 0 <= f <= 1 -> 0 <= a -> convex phi -> convex (coin f a phi).
Proof.
move=> f01 a0 cphi; have [pos fall lc] := cphi; have [f0 f1] := andP f01.
have g0 : 0 <= 1 - f by rewrite subr_ge0.
split=> [w w0|w u w0 u0|w u v w0 u0 v0]; first exact: coin_pos.
  by rewrite /coin addrAC ler_add // ler_wpmul2l // fall // ltr_paddr.
rewrite -subr_ge0.
have cross := @convex_cross phi w (w + a) u v cphi w0 (ltr_paddr a0 w0) u0 v0.
have lc0 := lc w u v w0 u0 v0; have lc1 := lc (w + a) u v (ltr_paddr a0 w0) u0 v0.
rewrite -subr_ge0 in cross; rewrite -subr_ge0 in lc0; rewrite -subr_ge0 in lc1.
have -> : coin f a phi w * coin f a phi (w + u + v) - coin f a phi (w + u) * coin f a phi (w + v)
  = f ^+ 2 * (phi (w + a) * phi (w + a + u + v) - phi (w + a + u) * phi (w + a + v))
  + (1 - f) ^+ 2 * (phi w * phi (w + u + v) - phi (w + u) * phi (w + v))
  + f * (1 - f) * (phi w * phi (w + a + u + v) + phi (w + a) * phi (w + u + v)
     - (phi (w + u) * phi (w + a + v) + phi (w + a + u) * phi (w + v))).
  rewrite /coin; have -> : w + u + v + a = w + a + u + v by ring.
  have -> : w + u + a = w + a + u by ring.
  have -> : w + v + a = w + a + v by ring.
  ring.
by rewrite !addr_ge0 // mulr_ge0 // ?exprn_ge0 // mulr_ge0.
Qed.

(** A further cell with a coin makes the ratio smaller, one that is sure even more. *)
Lemma coin_flatter f a phi w u : 0 <= f <= 1 -> 0 <= a -> convex phi -> 0 < w -> 0 <= u ->
  flatter (coin f a phi) w phi w u.
Proof.
move=> /andP[f0 f1] a0 cphi w0 u0; rewrite /flatter /coin.
have := @convex_shift phi (w + a) w u cphi w0; rewrite ler_addl => /(_ a0 u0); rewrite /flatter -subr_ge0 => sh.
rewrite -subr_ge0.
have -> : phi w * (f * phi (w + u + a) + (1 - f) * phi (w + u)) - (f * phi (w + a) + (1 - f) * phi w) * phi (w + u)
  = f * (phi w * phi (w + a + u) - phi (w + a) * phi (w + u)).
  have -> : w + u + a = w + a + u by ring. 
  ring.
exact: mulr_ge0.
Qed.

Lemma sure_flatter f a phi w u : 0 <= f <= 1 -> 0 <= a -> convex phi -> 0 < w -> 0 <= u ->
  flatter phi (w + a) (coin f a phi) w u.
Proof.
move=> /andP[f0 f1] a0 cphi w0 u0; rewrite /flatter /coin.
have := @convex_shift phi (w + a) w u cphi w0; rewrite ler_addl => /(_ a0 u0); rewrite /flatter -subr_ge0 => sh.
rewrite -subr_ge0.
have -> : (f * phi (w + a) + (1 - f) * phi w) * phi (w + a + u) - phi (w + a) * (f * phi (w + u + a) + (1 - f) * phi (w + u))
  = (1 - f) * (phi w * phi (w + a + u) - phi (w + a) * phi (w + u)).
  have -> : w + u + a = w + a + u by ring. 
  ring.
by rewrite mulr_ge0 // subr_ge0.
Qed.

Lemma flatter_trans phi w psi x chi y u : 0 < psi x -> 0 < psi (x + u) -> 0 <= phi (w + u) -> 0 <= chi (y + u) ->
  flatter phi w psi x u -> flatter psi x chi y u -> flatter phi w chi y u.
Proof.
rewrite /flatter => p1 p2 q1 q2 one two.
rewrite -(ler_pmul2r p2).
apply: (@le_trans _ _ (psi x * phi (w + u) * chi (y + u))).
  by rewrite mulrAC ler_wpmul2r.
by rewrite mulrAC [X in _ <= X]mulrAC; apply: ler_wpmul2r.
Qed.

End Convex.

Section Mixture.
Variables (R : realFieldType) (I : eqType).
Implicit Types (F w : I -> R) (phi : R -> R) (L C : seq I).

(** The expectation of phi(weight + the w of the cells that are in), where the cell c is in with probability F c. *)
Fixpoint mixture F w phi L : R -> R := if L is c :: L' then coin (F c) (w c) (mixture F w phi L') else phi.

Lemma eq_mixture F F' w w' phi L x : (forall c, c \in L -> F c = F' c /\ w c = w' c) ->
  mixture F w phi L x = mixture F' w' phi L x.
Proof.
elim: L x => [|c L ih] x //= same; have [-> ->] := same c (mem_head _ _).
by rewrite /coin !ih // => d dL; apply: same; rewrite inE dL orbT.
Qed.

Lemma mixture_cat F w phi C L x : mixture F w phi (C ++ L) x = mixture F w (mixture F w phi L) C x.
Proof. by elim: C x => [|c C ih] x //=; rewrite /coin !ih. Qed.

Lemma mixture_front F w phi C c L x : mixture F w phi (C ++ c :: L) x = mixture F w phi (c :: C ++ L) x.
Proof.
elim: C x => [|d C ih] x //=; rewrite /coin !ih /= /coin.
have -> : x + w c + w d = x + w d + w c by ring.
ring.
Qed.

Lemma mixture_perm F w phi L L' x : perm_eq L L' -> mixture F w phi L x = mixture F w phi L' x.
Proof.
elim: L L' x => [|c L ih] L' x; first by rewrite perm_sym => /perm_nilP->.
move=> pe; have cL : c \in L' by rewrite -(perm_mem pe) mem_head.
case/path.splitPr: cL pe => p q pe; rewrite mixture_front /= /coin.
have {}pe : perm_eq L (p ++ q) by rewrite -(perm_cons c); apply: (perm_trans pe); apply/permPl/(perm_catCA p [:: c] q).
by rewrite !(ih _ _ pe).
Qed.

Lemma mixture_convex F w phi L : (forall c, c \in L -> 0 <= F c <= 1 /\ 0 <= w c) -> convex phi ->
  convex (mixture F w phi L).
Proof.
move=> + cphi; elim: L => [|c L ih] //= ok; have [F01 w0] := ok c (mem_head _ _).
by apply: coin_convex => //; apply: ih => d dL; apply: ok; rewrite inE dL orbT.
Qed.

Lemma mixture_sure F w phi C x : (forall c, c \in C -> F c = 1) ->
  mixture F w phi C x = phi (x + \sum_(c <- C) w c).
Proof.
elim: C x => [|c C ih] x /= sure; first by rewrite big_nil addr0.
rewrite /coin sure ?mem_head // mul1r subrr mul0r addr0 big_cons addrA ih // => d dC.
by rewrite sure // inE dC orbT.
Qed.

Lemma sure_list_flatter F w phi C x u : (forall c, c \in C -> 0 <= F c <= 1 /\ 0 <= w c) -> convex phi ->
  0 < x -> 0 <= u -> flatter phi (x + \sum_(c <- C) w c) (mixture F w phi C) x u.
Proof.
move=> + cphi; elim: C x => [|c C ih] x ok x0 u0; first by rewrite big_nil addr0 /flatter.
have [F01 w0] := ok c (mem_head _ _).
have okC d : d \in C -> 0 <= F d <= 1 /\ 0 <= w d by move=> dC; apply: ok; rewrite inE dC orbT.
have [pos _ _] := mixture_convex okC cphi; have [pos' _ _] := mixture_convex ok cphi.
have sum0 : 0 <= \sum_(d <- C) w d by rewrite big_seq sumr_ge0 // => d /okC[].
have xw : 0 < x + w c by rewrite ltr_paddr.
rewrite big_cons addrA; apply: flatter_trans (ih (x + w c) okC xw u0) (sure_flatter F01 w0 _ x0 u0).
- exact: pos.
- by apply: pos; rewrite ltr_paddr.
- by have [q _ _] := cphi; rewrite ltW // q // !ltr_paddr.
- by rewrite ltW // (pos' (x + u)) // ltr_paddr.
exact: mixture_convex.
Qed.

End Mixture.

Section Inverse.
Variable R : realFieldType.

(** r(W) = 1 / W^(m). *)
Definition inverse m (w : R) : R := (rising w m)^-1.

Lemma inverse_convex m : convex (inverse m).
Proof.
split=> [w w0|w u w0 u0|w u v w0 u0 v0]; first by rewrite invr_gt0 rising_gt0.
  by rewrite lef_pinv ?posrE ?rising_gt0 ?ltr_paddr //; apply: rising_le; rewrite ?ler_addl // ltW.
rewrite /inverse -!invfM lef_pinv ?posrE ?mulr_gt0 ?rising_gt0 ?ltr_paddr ?addr_ge0 //.
rewrite -!big_split /= ler_prod // => t _.
have [w' t0] : 0 <= w /\ 0 <= t%:R :> R by rewrite ltW // ler0n.
rewrite mulr_ge0 ?addr_ge0 //= -subr_ge0.
have -> : (w + u + t%:R) * (w + v + t%:R) - (w + t%:R) * (w + u + v + t%:R) = u * v by ring.
exact: mulr_ge0.
Qed.

(** One more draw: what becomes of the proof that V grows with m, without integrals. *)
Lemma inverse_next m (w : R) : 0 < w -> inverse m w - inverse m (w + 1) = m%:R * inverse m.+1 w.
Proof.
move=> w0; rewrite /inverse.
have wm : w + m%:R != 0 by rewrite gt_eqF // ltr_paddr ?ler0n.
have r0 : rising w m != 0 by rewrite gt_eqF ?rising_gt0.
have r1 : rising (w + 1) m != 0 by rewrite gt_eqF ?rising_gt0 ?ltr_paddr ?ler01.
have w1 : w != 0 by rewrite gt_eqF.
have e : rising (w + 1) m = (w + m%:R) * rising w m / w by rewrite -rising_ratio mulrC mulKf.
by rewrite risingSr e; field; rewrite wm r0 w1.
Qed.

End Inverse.

(** * Lemma 2: what pruning can change. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From OdsynthProofs Require Import Basics Mixtures Urn.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section PruningLoss.
Variables (R : realFieldType) (I : finType) (prior retention : I -> R).
Variables (prior0 : forall c, 0 < prior c) (retention01 : forall c, 0 < retention c <= 1).
Implicit Types (h : I -> nat) (i j c : I) (L : seq I) (m n : nat).

(** E[1 / W^(m)] over the coins of the cells of L; those of retention 1 are sure. *)
Definition expected m L (weight : R) : R := mixture retention prior (@inverse R m) L weight.

(** R_ij = E[1/(n + A + Q)^(m)] / E[1/(n + A + Q + a_j)^(m)], with the cells L besides i and j. *)
Definition ratio m n L i j : R :=
  expected m L (n%:R + prior i) / expected m L (n%:R + prior i + prior j).

Definition others i j := [seq c <- enum I | (c != i) && (c != j)].

(** e^V. *)
Definition pair_gain m n i j : R := retention j + (1 - retention j) * ratio m n (others i j) i j.
Definition pruning_gain m n : R :=
  \big[Num.max/1]_(p : I * I | (p.1 != p.2) && (retention p.2 < 1)) pair_gain m n p.1 p.2.

Let D m := @D R I prior retention m.
Let f01 c : 0 <= retention c <= 1.
Proof. by case/andP: (retention01 c) => /ltW -> ->. Qed.
Let ok L c : c \in L -> 0 <= retention c <= 1 /\ 0 <= prior c.
Proof. by move=> _; split; [exact: f01 | exact/ltW]. Qed.

Lemma expected_convex m L : convex (expected m L).
Proof. by apply: mixture_convex (inverse_convex R m) => c; exact: ok. Qed.

Lemma surely01 h (t : seq I) c : 0 <= surely retention h t c <= 1.
Proof. by rewrite /surely; case: ifP; rewrite ?ler01 ?lexx ?f01. Qed.

Section Neighbours.
Variables (m n : nat) (t : seq I).

(** The expectation over all cells but i and j. *)
Let rest h i j := mixture (surely retention h t) (@weights R I prior h) (@inverse R m) (others i j).

Lemma D_split i j h : i != j -> (0 < h i)%N ->
  D m h t = coin (surely retention h t j) (weights prior h j) (rest h i j) (weights prior h i).
Proof.
move=> ij hi; rewrite /D /Urn.D (@coins_mixture _ _ (i :: j :: others i j) _ _ (@inverse R m)).
- have si : surely retention h t i = 1 by rewrite /surely hi.
  by rewrite /= {1}/coin si subrr mul0r addr0 mul1r add0r.
- by rewrite /= !inE !mem_filter !eqxx andbF (negPf ij) filter_uniq ?enum_uniq.
by move=> c; rewrite !inE mem_filter mem_enum andbT; case: eqP => //=; case: eqP.
Qed.

Lemma rest_convex h i j : convex (rest h i j).
Proof.
apply: mixture_convex (inverse_convex R m) => c _; split; first exact: surely01.
by rewrite addr_ge0 ?ler0n // ltW.
Qed.

Lemma D_gt0 i j h h' : moved i j h h' -> 0 < D m h t.
Proof.
case=> ij hi _; rewrite (D_split ij hi); case: (rest_convex h i j) => pos _ _.
by apply: coin_pos; rewrite ?surely01 ?weights_gt0 // ltW // weights_gt0.
Qed.

Lemma rest_moved i j h h' : moved i j h h' -> rest h' j i =1 rest h i j.
Proof.
case=> _ _ e x; rewrite /rest.
have -> : others j i = others i j by apply: eq_filter => c; exact: andbC.
apply: eq_mixture => c; rewrite mem_filter => /andP[/andP[/negPf ci /negPf cj] _].
by rewrite /surely /weights e ci cj subn0 addn0.
Qed.

(** The rest, with workers and draws where they are, against the rest with neither. *)
Lemma rest_flatter i j h : of_size n h -> i != j -> h j = 0%N ->
  flatter (rest h i j) (weights prior h i) (expected m (others i j)) (n%:R + prior i) (prior j).
Proof.
move=> hn ij hj.
pose here c := (0 < h c)%N || (0 < count_mem c t)%N.
pose C := [seq c <- others i j | here c]; pose U := [seq c <- others i j | ~~ here c].
have pe : perm_eq (others i j) (C ++ U) by rewrite perm_sym; exact/permPl/perm_filterC.
pose phi := expected m U.
have eq_rest x : rest h i j x = phi (x + \sum_(c <- C) weights prior h c).
  rewrite /rest (mixture_perm _ _ _ _ pe) mixture_cat mixture_sure => [|c]; last first.
    by rewrite mem_filter /surely => /andP[]; rewrite /here => ->.
  apply: eq_mixture => c; rewrite mem_filter /here negb_or -!leqNgt !leqn0 => /andP[/andP[/eqP h0 /eqP s0] _].
  by rewrite /surely /weights h0 s0 /= add0r.
have eq_expected x : expected m (others i j) x = mixture retention prior phi C x.
  by rewrite /expected (mixture_perm _ _ _ _ pe) mixture_cat.
have sums : weights prior h i + \sum_(c <- C) weights prior h c = n%:R + prior i + \sum_(c <- C) prior c.
  rewrite /weights big_split /= addrA; congr (_ + _); rewrite addrAC; congr (_ + _).
  rewrite -natr_sum -natrD -hn; congr (_%:R).
  rewrite (bigD1 i) //= (bigD1 j) 1?eq_sym //= hj add0n; congr addn.
  rewrite /C big_filter /others big_filter_cond big_enum_cond /= [RHS](bigID here) /=.
  rewrite [X in _ = (_ + X)%N]big1 ?addn0 // => c /andP[_]; rewrite /here negb_or -leqNgt leqn0 => /andP[/eqP->].
  by [].
have := @sure_list_flatter R I retention prior phi C (n%:R + prior i) (prior j) (@ok C) (expected_convex m U)
  (ltr_paddl (ler0n _ n) (prior0 i)) (ltW (prior0 j)).
rewrite /flatter !eq_rest !eq_expected sums.
have -> // : weights prior h i + prior j + \sum_(c <- C) weights prior h c
  = n%:R + prior i + \sum_(c <- C) prior c + prior j by rewrite addrAC sums.
Qed.

End Neighbours.

Lemma expected_gt0 m L w : 0 < w -> 0 < expected m L w.
Proof. by case: (expected_convex m L) => pos _ _ /pos. Qed.

Let base0 n i : 0 < n%:R + prior i. Proof. by rewrite ltr_paddl ?ler0n. Qed.

Let base1 n i j : 0 < n%:R + prior i + prior j. Proof. by rewrite addr_gt0. Qed.

Lemma ratio_ge1 m n L i j : 1 <= ratio m n L i j.
Proof.
rewrite /ratio ler_pdivl_mulr ?expected_gt0 ?base1 // mul1r.
by case: (expected_convex m L) => _ fall _; rewrite fall // ltW.
Qed.

Lemma pruning_gain_ge1 m n : 1 <= pruning_gain m n.
Proof. exact: bigmax_ge0. Qed.

Lemma pair_gain_le m n i j : i != j -> pair_gain m n i j <= pruning_gain m n.
Proof.
move=> ij; have [f1|f1] := ltP (retention j) 1.
  by apply: (@bigmax_ge R _ _ (fun p : I * I => pair_gain m n p.1 p.2) 1 (i, j)); rewrite /= ij.
have fj : retention j = 1 by apply/le_anti; rewrite f1; case/andP: (f01 j) => _ ->.
by rewrite /pair_gain fj subrr mul0r addr0 pruning_gain_ge1.
Qed.

(** Lemma 2, the bound: D(h) <= e^V D(h') for all neighbours and outputs; by symmetry also D(h') <= e^V D(h). *)
Theorem pruning_loss m n h h' t : of_size n h -> neighbour h h' -> D m h t <= pruning_gain m n * D m h' t.
Proof.
move=> hn [i [j mv]]; have [ij hi e] := mv; have mv' := moved_sym mv; have [ji hj' e'] := mv'.
rewrite (D_split m t ij hi) (D_split m t ji hj').
set G := mixture (surely retention h t) (weights prior h) (inverse m) (others i j).
have cG : convex G := rest_convex m t h i j.
have [pos fall _] := cG.
have same x : mixture (surely retention h' t) (weights prior h') (inverse m) (others j i) x = G x := rest_moved m t mv x.
have wi0 := weights_gt0 prior0 h i; have wj0 := weights_gt0 prior0 h j.
have wi0' := weights_gt0 prior0 h' i; have wj0' := weights_gt0 prior0 h' j.
pose T := weights prior h i + weights prior h j.
have T' : weights prior h' j + weights prior h' i = T.
  rewrite /T /weights !e !eqxx (negPf ij) eq_sym (negPf ij) subn0 addn0.
  by rewrite natrD natrB //; ring.
have low : G T <= coin (surely retention h' t i) (weights prior h' i) G (weights prior h' j).
  rewrite /coin T'; have /andP[s0 s1] := surely01 h' t i.
  have GT : G T <= G (weights prior h' j) by rewrite -T' fall // ltW.
  have e1 : G T = surely retention h' t i * G T + (1 - surely retention h' t i) * G T by ring.
  rewrite [X in X <= _]e1.
  by rewrite ler_add2l ler_wpmul2l // subr_ge0.
rewrite [X in _ <= _ * X](_ : _ = coin (surely retention h' t i) (weights prior h' i) G (weights prior h' j)); last by rewrite /coin !same.
have V1 := pruning_gain_ge1 m n; have V0 := le_trans ler01 V1.
apply: le_trans (ler_wpmul2l V0 low).
have GT0 : 0 < G T by rewrite pos // addr_gt0.
rewrite /coin -/T /surely; case: ifPn => [_|].
  by rewrite mul1r subrr mul0r addr0 ler_pemull // ltW.
rewrite negb_or -!leqNgt !leqn0 => /andP[/eqP hj /eqP sj].
have Tj : T = weights prior h i + prior j by rewrite /T /weights hj add0r.
apply: le_trans (ler_wpmul2r (ltW GT0) (pair_gain_le m n ij)).
rewrite /pair_gain [X in _ <= X]mulrDl ler_add2l -mulrA ler_wpmul2l ?subr_ge0 //; first by case/andP: (f01 j).
have := rest_flatter m t hn ij hj; rewrite /flatter -/G -Tj => flat.
rewrite /ratio mulrAC ler_pdivl_mulr ?expected_gt0 ?base1 //.
Qed.

(** ... and the bound is met: by all workers and all draws in i. *)
Theorem pruning_loss_met m n i j : (0 < n)%N -> (0 < m)%N -> i != j ->
  let h c := (n * (c == i))%N in let h' c := (h c - (c == i) + (c == j))%N in let t := nseq m i in
  [/\ of_size n h, moved i j h h' & D m h t = pair_gain m n i j * D m h' t].
Proof.
move=> n0 m0 ij h h' t; have hi : (0 < h i)%N by rewrite /h eqxx muln1.
have mv : moved i j h h' by split.
have hn : of_size n h.
  by rewrite /of_size /h (bigD1 i) //= eqxx muln1 big1 ?addn0 // => c /negPf->; rewrite muln0.
split=> //; have [ji hj' _] := moved_sym mv.
rewrite (D_split m t ij hi) (D_split m t ji hj').
have hj : h j = 0%N by rewrite /h eq_sym (negPf ij) muln0.
have tj : count_mem j t = 0%N by rewrite count_nseq /= (negPf ij).
have ti : count_mem i t = m by rewrite count_nseq /= eqxx mul1n.
have eqG x : mixture (surely retention h t) (weights prior h) (inverse m) (others i j) x = expected m (others i j) x.
  apply: eq_mixture => c; rewrite mem_filter => /andP[/andP[/negPf ci _] _].
  by rewrite /surely /weights /h ci muln0 add0r count_nseq /= eq_sym ci mul0n.
have eqG' x : mixture (surely retention h' t) (weights prior h') (inverse m) (others j i) x = expected m (others i j) x.
  by rewrite (rest_moved m t mv) eqG.
have w_j : weights prior h j = prior j by rewrite /weights hj add0r.
have w_i : weights prior h i = n%:R + prior i by rewrite /weights /h eqxx muln1.
have w' : weights prior h' j + weights prior h' i = n%:R + prior i + prior j.
  rewrite /weights /h' hj /h !eqxx (negPf ij) eq_sym (negPf ij) muln1 subn0 addn0 add0n natrB //; ring.
rewrite /coin !eqG !eqG' w' w_j w_i.
have -> : surely retention h t j = retention j by rewrite /surely hj tj.
have -> : surely retention h' t i = 1 by rewrite /surely ti m0 orbT.
have E0 : expected m (others i j) (n%:R + prior i + prior j) != 0 by rewrite gt_eqF ?expected_gt0.
by rewrite mul1r subrr mul0r addr0 /pair_gain /ratio [RHS]mulrDl -[X in _ = _ + X]mulrA divfK.
Qed.

(** V falls with n, ... *)
Theorem ratio_falls_with_workers m n n' L i j : (n <= n')%N -> ratio m n' L i j <= ratio m n L i j.
Proof.
move=> nn; rewrite /ratio ler_pdivr_mulr ?expected_gt0 // mulrAC ler_pdivl_mulr ?expected_gt0 //.
by apply: (convex_shift (expected_convex m L)) => //; rewrite ?ler_add2r ?ler_nat // ltW.
Qed.

(** with every further cell, sure or not, ... *)
Theorem ratio_falls_with_cells m n c L i j : ratio m n (c :: L) i j <= ratio m n L i j.
Proof.
rewrite /ratio ler_pdivr_mulr ?expected_gt0 // mulrAC ler_pdivl_mulr ?expected_gt0 //.
by apply: (coin_flatter (f01 c) _ (expected_convex m L)) => //; rewrite ltW.
Qed.

(** grows with m, ... *)
Lemma expected_next m L w : 0 < w -> expected m L w - expected m L (w + 1) = m%:R * expected m.+1 L w.
Proof.
rewrite /expected; elim: L w => [|c L ih] w w0 /=; first exact: inverse_next.
have e1 := ih _ (ltr_paddr (ltW (prior0 c)) w0); have e0 := ih _ w0.
rewrite /coin (_ : w + 1 + prior c = w + prior c + 1); last by ring.
move/eqP: e1; rewrite subr_eq => /eqP->; move/eqP: e0; rewrite subr_eq => /eqP->.
move: (mixture _ _ _ _ (w + prior c)) (mixture _ _ _ _ (w + prior c + 1)) => A B.
move: (mixture _ _ _ _ w) (mixture _ _ _ _ (w + 1)) (m%:R) => C E k; ring.
Qed.

Theorem ratio_grows_with_draws m n L i j : ratio m n L i j <= ratio m.+1 n L i j.
Proof.
rewrite /ratio ler_pdivr_mulr ?expected_gt0 // mulrAC ler_pdivl_mulr ?expected_gt0 //.
set w := n%:R + prior i; have w0 : 0 < w := base0 n i; have wj0 : 0 < w + prior j := base1 n i j.
case: m => [|m].
  have one x : expected 0 L x = 1.
    rewrite /expected; elim: L x => [|c L ih] x /=; first by rewrite /inverse rising0 invr1.
    by rewrite /coin !ih; ring.
  rewrite !one mul1r mulr1; case: (expected_convex 1 L) => _ fall _; rewrite fall // ltW //.
have m0 : 0 < m.+1%:R :> R by rewrite ltr0n.
rewrite -(ler_pmul2l m0) mulrCA -expected_next // [X in _ <= X]mulrA -expected_next //.
have [_ _ lc] := expected_convex m.+1 L; have := lc w (prior j) 1 w0 (ltW (prior0 j)) ler01.
rewrite -subr_ge0 => {}lc; rewrite -subr_ge0; move: lc.
set a := expected _ _ w; set b := expected _ _ (w + prior j); set c := expected _ _ (w + 1); set d := expected _ _ _.
by have -> : (a - c) * b - a * (b - d) = a * d - b * c by ring.
Qed.

(** and no i is worse than one of retention 1. *)
Theorem ratio_largest_with_sure m n L i i' j : retention i = 1 ->
  ratio m n (i :: L) i' j <= ratio m n (i' :: L) i j.
Proof.
move=> fi; rewrite /ratio ler_pdivr_mulr ?expected_gt0 // mulrAC ler_pdivl_mulr ?expected_gt0 //.
have sure x : expected m (i :: L) x = expected m L (x + prior i).
  by rewrite /expected /= /coin fi subrr mul0r addr0 mul1r.
rewrite !sure; set w := n%:R + prior i.
have -> : n%:R + prior i' + prior i = w + prior i' by rewrite /w; ring.
have -> : n%:R + prior i' + prior j + prior i = w + prior i' + prior j by rewrite /w; ring.
by apply: (sure_flatter (f01 i') _ (expected_convex m L)) => //; rewrite ?ltW // base0.
Qed.

End PruningLoss.

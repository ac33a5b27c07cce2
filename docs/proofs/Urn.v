(** * The mechanism: steps 1 to 3 of docs/privacy.md, its likelihood, and Lemma 1. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From OdsynthProofs Require Import Basics Mixtures.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(** ** Coins thrown all at once, and one after the other *)

Section Coins.
Variables (R : realFieldType) (I : finType).
Implicit Types (F G w : I -> R) (J K : {set I}) (L : seq I) (Phi : {set I} -> R).

Fixpoint throw F G Phi L K : R :=
  if L is c :: L' then F c * throw F G Phi L' (c |: K) + G c * throw F G Phi L' K else Phi K.

Lemma big_throw F G Phi L K : uniq L -> (forall c, c \in L -> c \notin K) ->
  \sum_(J : {set I} | J :\: [set c in L] == K) (\prod_(c <- L) (if c \in J then F c else G c)) * Phi J
    = throw F G Phi L K.
Proof.
elim: L K => [|c L ih] K /=.
  move=> _ _; rewrite (big_pred1 K) => [|J]; first by rewrite big_nil mul1r.
  by rewrite (_ : [set c in [::]] = set0) ?setD0 //; apply/setP => c; rewrite !inE.
case/andP=> cL uL cK; have cnK := cK c (mem_head _ _).
rewrite (bigID (fun J : {set I} => c \in J)) /=; congr (_ + _).
  rewrite -ih //; last first.
    move=> d dL; rewrite !inE negb_or cK ?inE ?dL ?orbT // andbT.
    by apply: contraNneq cL => <-.
  rewrite mulr_sumr; apply: eq_big => [J|J /andP[_ cJ]]; last by rewrite big_cons cJ mulrA.
  apply/andP/eqP => [[/eqP JK cJ]|JK].
    apply/setP => d; move/setP: JK => /(_ d); rewrite !inE.
    by have [->|dc] := eqVneq d c; rewrite ?cL ?cJ //= => <-.
  have cJ : c \in J by move/setP: JK => /(_ c); rewrite !inE eqxx (negPf cL) /= => ->.
  split=> //; apply/eqP/setP => d; move/setP: JK => /(_ d); rewrite !inE.
  by have [->|dc] := eqVneq d c; rewrite ?(negPf cnK) ?cL.
rewrite -ih //; last by move=> d dL; rewrite cK // inE dL orbT.
rewrite mulr_sumr; apply: eq_big => [J|J /andP[_ /negPf cJ]]; last by rewrite big_cons cJ mulrA.
apply/andP/eqP => [[/eqP JK cJ]|JK].
  apply/setP => d; move/setP: JK => /(_ d); rewrite !inE.
  by have [->|dc] := eqVneq d c; rewrite ?cL ?(negPf cJ) ?(negPf cnK).
have cJ : c \notin J by move/setP: JK => /(_ c); rewrite !inE (negPf cL) (negPf cnK) /= => ->.
split=> //; apply/eqP/setP => d; move/setP: JK => /(_ d); rewrite !inE.
by have [->|dc] := eqVneq d c; rewrite ?(negPf cnK) ?cL ?(negPf cJ).
Qed.

Lemma all_coins L F G Phi : uniq L -> (forall c, c \in L) ->
  \sum_(J : {set I}) (\prod_c (if c \in J then F c else G c)) * Phi J = throw F G Phi L set0.
Proof.
move=> uL all; rewrite -big_throw // => [|c _]; last by rewrite inE.
apply: eq_big => [J|J _]; first by apply/esym/eqP/setP => c; rewrite !inE all.
congr (_ * _); rewrite -big_enum; apply: perm_big; rewrite uniq_perm ?enum_uniq // => c.
by rewrite all mem_enum.
Qed.

Lemma throw_one F Phi L K : (forall J, Phi J = 1) -> throw F (fun c => 1 - F c) Phi L K = 1.
Proof. by move=> one; elim: L K => [|c L ih] K //=; rewrite !ih; ring. Qed.

Lemma sum_coins F : \sum_(J : {set I}) \prod_c (if c \in J then F c else 1 - F c) = 1.
Proof.
have := all_coins F (fun c => 1 - F c) (fun=> 1) (enum_uniq I) (mem_enum I); rewrite throw_one // => one; rewrite -[RHS]one.
by apply: eq_bigr => J _; rewrite [RHS]mulr1.
Qed.

Lemma throw_mixture F w phi L K : uniq L -> (forall c, c \in L -> c \notin K) ->
  throw F (fun c => 1 - F c) (fun J => phi (\sum_(c in J) w c)) L K = mixture F w phi L (\sum_(c in K) w c).
Proof.
elim: L K => [|c L ih] K //= /andP[cL uL] cK; have cnK := cK c (mem_head _ _).
rewrite /coin !ih //.
- by rewrite big_setU1 //= [w c + _]addrC.
- by move=> d dL; rewrite cK // inE dL orbT.
move=> d dL; rewrite !inE negb_or cK ?inE ?dL ?orbT // andbT.
by apply: contraNneq cL => <-.
Qed.

Lemma coins_mixture L F w phi : uniq L -> (forall c, c \in L) ->
  \sum_(J : {set I}) (\prod_c (if c \in J then F c else 1 - F c)) * phi (\sum_(c in J) w c)
    = mixture F w phi L 0.
Proof.
move=> uL all; rewrite (all_coins F _ _ uL all) throw_mixture // => [|c _]; last by rewrite inE.
by rewrite big_set0.
Qed.

End Coins.

Lemma big_tuple_cons (V : zmodType) (I : finType) m (F : m.+1.-tuple I -> V) :
  \sum_t F t = \sum_c \sum_(t : m.-tuple I) F [tuple of c :: t].
Proof.
rewrite pair_big /= (reindex (fun p : I * m.-tuple I => [tuple of p.1 :: p.2])) //=.
exists (fun t => (thead t, [tuple of behead t])) => [[c t] _|t _] /=.
  by congr (_, _); apply: val_inj.
by rewrite -tuple_eta.
Qed.

(** ** The mechanism *)

Section Mechanism.
Variables (R : realFieldType) (I : finType).
(** Cells, their priors and retentions; the number of draws. *)
Variables (prior retention : I -> R) (m : nat).
(** The histogram of the origins, any function from cells to numbers. *)
Implicit Types (h : I -> nat) (t : seq I).

(** Step 1: the probability that K is the set of cells in the urn. *)
Definition coins h (K : {set I}) : R :=
  \prod_c (if c \in K then (if (0 < h c)%N then 1 else retention c)
                      else (if (0 < h c)%N then 0 else 1 - retention c)).

(** Steps 2 and 3: the probability of the draws t, one after the other, from an urn of the cells K with weights w;
    each adds 1 to the weight of its cell. *)
Fixpoint urn (K : {set I}) (w : I -> R) t : R :=
  if t is c :: t' then
    (if c \in K then w c / \sum_(d in K) w d else 0) * urn K (fun d => w d + (d == c)%:R) t'
  else 1.

Definition weights h c : R := (h c)%:R + prior c.

Definition resampling h (t : m.-tuple I) : R := \sum_K coins h K * urn K (weights h) t.

(** Neighbours: the origin of one record is j and not i. *)
Definition moved (i j : I) h h' := [/\ i != j, (0 < h i)%N & forall c, h' c = (h c - (c == i) + (c == j))%N].
Definition neighbour h h' := exists i j, moved i j h h'.

(** Histograms of n records. *)
Definition of_size n h := (\sum_c h c)%N = n.

Lemma moved_sym i j h h' : moved i j h h' -> moved j i h' h.
Proof.
case=> ij hi e; split=> [||c]; first by rewrite eq_sym.
  by rewrite e eqxx addn1.
rewrite e; have [->|ci] := eqVneq c i; last by rewrite subn0 addn0 addnK.
by rewrite (negPf ij) addn0 subn0 subnK.
Qed.

Lemma neighbour_sym h h' : neighbour h h' -> neighbour h' h.
Proof. by case=> i [j /moved_sym]; exists j, i. Qed.

Lemma moved_size n i j h h' : moved i j h h' -> of_size n h -> of_size n h'.
Proof.
case=> ij hi e; rewrite /of_size => <-.
have one k : (\sum_c (c == k))%N = 1%N by rewrite (bigD1 k) //= eqxx big1 ?addn0 // => c /negPf->.
apply/eqP; rewrite -(eqn_add2r (\sum_c (c == i))).
have -> : (\sum_c h c + \sum_c (c == i) = \sum_c h c + \sum_c (c == j))%N by rewrite !one.
rewrite -!big_split /=; apply/eqP.
apply: eq_bigr => c _; rewrite e addnAC subnK //.
by have [->|] := eqVneq c i.
Qed.

(** ** The likelihood *)

Variables (prior0 : forall c, 0 < prior c) (retention01 : forall c, 0 < retention c <= 1).

Lemma retention_ge0 c : 0 <= retention c. Proof. by case/andP: (retention01 c) => /ltW. Qed.
Lemma retention_le1 c : 0 <= 1 - retention c. Proof. by rewrite subr_ge0; case/andP: (retention01 c). Qed.

Lemma weights_gt0 h c : 0 < weights h c. Proof. by rewrite ltr_paddl ?ler0n. Qed.

Lemma coins_ge0 h K : 0 <= coins h K.
Proof.
by apply: prodr_ge0 => c _; case: (c \in K); case: (0 < h c)%N; rewrite ?ler01 ?retention_ge0 ?retention_le1.
Qed.

Lemma coins_as h K :
  coins h K = \prod_c (if c \in K then (if (0 < h c)%N then 1 else retention c)
                                  else 1 - (if (0 < h c)%N then 1 else retention c)).
Proof. by apply: eq_bigr => c _; case: ifP => // _; case: ifP => // _; rewrite subrr. Qed.

Lemma sum_coins_one h : \sum_K coins h K = 1.
Proof. by rewrite -[RHS](sum_coins (fun c => if (0 < h c)%N then 1 else retention c)); apply: eq_bigr => K _; exact: coins_as. Qed.

(** Cells with workers are always in the urn. *)
Lemma coins_occupied h (K : {set I}) c : (0 < h c)%N -> c \notin K -> coins h K = 0.
Proof. by move=> hc /negPf cK; rewrite /coins (bigD1 c) //= cK hc mul0r. Qed.

Lemma urn_closed (K : {set I}) w t : (forall c, 0 < w c) ->
  urn K w t = if all (mem K) t
              then (\prod_c rising (w c) (count_mem c t)) / rising (\sum_(c in K) w c) (size t) else 0.
Proof.
elim: t w => [|c t ih] w w0 /=.
  by rewrite rising0 big1 ?divr1 // => c _; rewrite rising0.
have [cK|cK] /= := boolP (c \in K); last by rewrite mul0r.
rewrite ih => [|d]; last by rewrite ltr_paddr ?ler0n.
case: ifP => _; last by rewrite mulr0.
rewrite big_split /= (_ : \sum_(d in K) (d == c)%:R = 1); last first.
  by rewrite (bigD1 c) //= eqxx big1 ?addr0 // => d /andP[_ /negPf->].
rewrite risingS mulf_div; congr (_ / _).
rewrite [RHS](bigD1 c) //= [in LHS](bigD1 c) //= eqxx add1n risingS mulrA; congr (_ * _).
by apply: eq_bigr => d /negPf dc; rewrite dc addr0 eq_sym dc add0n.
Qed.

Lemma sum_urn k (K : {set I}) w : (forall c, 0 < w c) -> K != set0 -> \sum_(t : k.-tuple I) urn K w t = 1.
Proof.
move=> w0 /set0Pn[d dK]; elim: k w w0 => [|k ih] w w0.
  rewrite (big_pred1 [tuple]) // => t; apply/esym/eqP/val_inj/size0nil; exact: size_tuple.
have W0 : \sum_(c in K) w c != 0.
  by rewrite gt_eqF // (bigD1 d) //= ltr_paddr ?sumr_ge0 // => c _; exact: ltW.
rewrite big_tuple_cons /= (eq_bigr (fun c => if c \in K then w c / \sum_(d in K) w d else 0)) => [|c _].
  by rewrite -big_mkcond -mulr_suml divff.
rewrite -mulr_sumr ih ?mulr1 // => e; by rewrite ltr_paddr ?ler0n.
Qed.

Theorem resampling_is_a_mechanism n : (0 < n)%N -> is_mechanism (of_size n) resampling.
Proof.
move=> n0 h hn; split=> [t|].
  apply: sumr_ge0 => K _; rewrite mulr_ge0 ?coins_ge0 // urn_closed => [|c]; last exact: weights_gt0.
  have W0 c := ltW (weights_gt0 h c).
  case: ifP => // _; apply: divr_ge0; first by apply: prodr_ge0 => c _; exact: rising_ge0.
  by apply/rising_ge0/sumr_ge0 => c _; exact: W0.
have [c hc] : exists c, (0 < h c)%N.
  apply/existsP; move: n0; apply: contraLR; rewrite negb_exists -hn => /forallP none.
  by rewrite -leqNgt leqn0 sum_nat_eq0; apply/forallP => c; rewrite -leqn0 leqNgt none.
rewrite exchange_big /= -[RHS](sum_coins_one h); apply: eq_bigr => K _; rewrite -mulr_sumr.
have [cK|cK] := boolP (c \in K); last by rewrite (coins_occupied hc cK) mul0r.
rewrite sum_urn ?mulr1 // => [d|]; first exact: weights_gt0.
by apply/set0Pn; exists c.
Qed.

(** Of a cell with x workers and s draws: what the product of the likelihood has, and D. *)
Definition factor c (x s : nat) : R :=
  rising (x%:R + prior c) s * (if (x == 0)%N && (0 < s)%N then retention c else 1).

Definition surely h t c : R := if (0 < h c)%N || (0 < count_mem c t)%N then 1 else retention c.

(** D(h) = E[1 / W^(m)]: cells with workers or draws are in the urn, the others by their coins. *)
Definition D h t : R :=
  \sum_(K : {set I}) (\prod_c (if c \in K then surely h t c else 1 - surely h t c))
    * (rising (\sum_(c in K) weights h c) m)^-1.

Theorem likelihood h (t : m.-tuple I) :
  resampling h t = (\prod_c factor c (h c) (count_mem c t)) * D h t.
Proof.
rewrite /resampling /D mulr_sumr; apply: eq_bigr => K _.
rewrite urn_closed => [|c]; last exact: weights_gt0.
rewrite size_tuple /factor [X in _ = X * _]big_split /=; case: ifPn => [/allP inK|].
  suff -> : coins h K = (\prod_c if (h c == 0%N) && (0 < count_mem c t)%N then retention c else 1)
      * \prod_c (if c \in K then surely h t c else 1 - surely h t c).
    by rewrite -!mulrA [RHS]mulrCA; congr (_ * _); exact: mulrCA.
  rewrite -big_split /=; apply: eq_bigr => c _; rewrite /surely.
  have [cK|cK] := boolP (c \in K).
    by case: (h c) => [|x] /=; case: (count_mem c t) => [|s] /=; rewrite ?mul1r ?mulr1.
  have -> : count_mem c t = 0%N.
    by apply/count_memPn; apply: contra cK => /inK.
  by case: (h c) => [|x] /=; rewrite ?mul1r // subrr.
case/allPn=> c ct cK; have {cK} /negPf cK : c \notin K by [].
rewrite mulr0 [X in _ * (X / _)](bigD1 c) //= cK /surely.
by rewrite -has_count has_pred1 ct orbT subrr !mul0r mulr0.
Qed.

(** ** Lemma 1 *)

(** g_c(x, s). *)
Definition gain c (x s : nat) : R :=
  if (2 <= x)%N then 1 + s%:R / (x%:R - 1 + prior c)
  else if (0 < s)%N then (1 + s%:R / prior c) / retention c else 1.

(** The factor of a cell to which a record comes, r_c(s) of docs/privacy.md. *)
Definition arrival c (x s : nat) : R :=
  if (x == 0)%N && (0 < s)%N then (1 + s%:R / prior c) / retention c else 1 + s%:R / (x%:R + prior c).

Lemma retention_gt0 c : 0 < retention c. Proof. by case/andP: (retention01 c). Qed.

Lemma inverse_retention_ge1 c : 1 <= (retention c)^-1.
Proof. by rewrite invf_ge1 ?retention_gt0 //; case/andP: (retention01 c). Qed.

Lemma count_prior_gt0 c x : 0 < x%:R + prior c. Proof. by rewrite ltr_paddl ?ler0n. Qed.

Lemma gain_next c x s : gain c x.+1 s = arrival c x s.
Proof.
rewrite /gain /arrival; case: x => [|x] /=; last by rewrite -[x.+2]addn1 natrD addrK.
by case: s => [|s] //=; rewrite mul0r addr0.
Qed.

Lemma one_plus_ge1 (x y : R) : 0 <= x -> 0 < y -> 1 <= 1 + x / y.
Proof. by move=> x0 y0; rewrite ler_addl divr_ge0 // ltW. Qed.

Lemma pruned_ge c s : 1 + s%:R / prior c <= (1 + s%:R / prior c) / retention c.
Proof.
by rewrite ler_pemulr ?inverse_retention_ge1 // (le_trans ler01) // one_plus_ge1 ?ler0n.
Qed.

Lemma arrival_ge1 c x s : 1 <= arrival c x s.
Proof.
rewrite /arrival; case: ifP => _; last by rewrite one_plus_ge1 ?ler0n ?count_prior_gt0.
by apply: le_trans (pruned_ge c s); rewrite one_plus_ge1 ?ler0n.
Qed.

Lemma arrival_le_gain c x s : arrival c x s <= gain c x s.
Proof.
rewrite /arrival /gain; case: x => [|[|x]] /=.
- by case: s => [|s] //=; rewrite mul0r addr0.
- case: s => [|s] /=; first by rewrite mul0r addr0.
  apply: le_trans (pruned_ge c s.+1); rewrite ler_add2l ler_wpmul2l ?ler0n //.
  by rewrite lef_pinv ?posrE ?(count_prior_gt0 c 1) // ler_addr ler01.
rewrite ler_add2l ler_wpmul2l ?ler0n //.
have -> : x.+2%:R - 1 + prior c = x.+1%:R + prior c by rewrite -[x.+2]addn1 natrD addrK.
by rewrite lef_pinv ?posrE ?count_prior_gt0 // ler_add2r ler_nat.
Qed.

Lemma gain_ge1 c x s : 1 <= gain c x s.
Proof. exact: le_trans (arrival_ge1 c x s) (arrival_le_gain c x s). Qed.

Lemma factor_gt0 c x s : 0 < factor c x s.
Proof.
by rewrite mulr_gt0 ?rising_gt0 ?count_prior_gt0 //; case: ifP => _; rewrite ?ltr01 ?retention_gt0.
Qed.

Lemma factor_next c x s : factor c x.+1 s = arrival c x s * factor c x s.
Proof.
have nz := lt0r_neq0 (count_prior_gt0 c x).
have key : rising (x.+1%:R + prior c) s = (1 + s%:R / (x%:R + prior c)) * rising (x%:R + prior c) s.
  have := rising_ratio (x%:R + prior c) s; rewrite addrAC -mulrSr => e.
  by apply: (mulfI nz); rewrite e mulrA mulrDr mulr1 [_ * (_ / _)]mulrC divfK.
rewrite /factor /arrival key; case: x nz {key} => [|x] nz /=; last by rewrite !mulr1.
rewrite !add0r; case: s => [|s] /=; first by rewrite !mulr1.
by rewrite mulr1 mulrACA mulVf ?mulr1 // gt_eqF ?retention_gt0.
Qed.

Theorem block_loss i j h h' (t : m.-tuple I) : moved i j h h' ->
  resampling h t * D h' t <= gain i (h i) (count_mem i t) * (resampling h' t * D h t)
  /\ resampling h' t * D h t <= gain j (h j) (count_mem j t) * (resampling h t * D h' t).
Proof.
case=> ij hi e; rewrite !likelihood.
have D0 g : 0 <= D g t.
  apply: sumr_ge0 => K _; rewrite mulr_ge0 ?invr_ge0 ?rising_ge0 ?sumr_ge0 //.
    apply: prodr_ge0 => c _; rewrite /surely; case: ifP => _; case: ifP => _; rewrite ?ler01 ?subrr ?retention_ge0 ?retention_le1 //.
  by move=> c _; exact/ltW/weights_gt0.
have hi1 : h i = (h' i).+1 by rewrite e eqxx (negPf ij) addn0 subn1 prednK.
have hj1 : h' j = (h j).+1 by rewrite e eqxx eq_sym (negPf ij) subn0 addn1.
rewrite (bigD1 i) // (bigD1 j) /=; last by rewrite eq_sym.
rewrite [\prod_c factor c (h' c) _](bigD1 i) // [\prod_(c | c != i) factor c (h' c) _](bigD1 j) /=; last by rewrite eq_sym.
have -> : \prod_(c | (c != i) && (c != j)) factor c (h' c) (count_mem c t)
        = \prod_(c | (c != i) && (c != j)) factor c (h c) (count_mem c t).
  by apply: eq_bigr => c /andP[/negPf ci /negPf cj]; rewrite e ci cj subn0 addn0.
set rest := \prod_(_ | _) _.
have rest0 : 0 <= rest by apply: prodr_ge0 => c _; exact/ltW/factor_gt0.
rewrite hi1 hj1 !factor_next !gain_next.
set si := count_mem i t; set sj := count_mem j t.
set fi := factor i _ _; set fj := factor j _ _; set Dh := D h t; set Dh' := D h' t.
have [Dh0 Dh0'] : 0 <= Dh /\ 0 <= Dh' by split; exact: D0.
have fi0 : 0 <= fi by exact/ltW/factor_gt0.
have fj0 : 0 <= fj by exact/ltW/factor_gt0.
have common : 0 <= fi * fj * rest * Dh * Dh' by do 4![apply: mulr_ge0 => //].
have [gi gj] := (arrival_ge1 i (h' i) si, arrival_ge1 j (h j) sj).
split.
  have -> : arrival i (h' i) si * fi * (fj * rest) * Dh * Dh' = 1 * (arrival i (h' i) si * (fi * fj * rest * Dh * Dh')) by ring.
  have -> : arrival i (h' i) si * (fi * (arrival j (h j) sj * fj * rest) * Dh' * Dh)
    = arrival j (h j) sj * (arrival i (h' i) si * (fi * fj * rest * Dh * Dh')) by ring.
  by rewrite ler_wpmul2r // mulr_ge0 // (le_trans ler01).
have -> : fi * (arrival j (h j) sj * fj * rest) * Dh' * Dh = arrival j (h j) sj * (fi * fj * rest * Dh * Dh') by ring.
have -> : gain j (h j) sj * (arrival i (h' i) si * fi * (fj * rest) * Dh * Dh')
  = (gain j (h j) sj * arrival i (h' i) si) * (fi * fj * rest * Dh * Dh') by ring.
rewrite ler_wpmul2r // (le_trans (arrival_le_gain j (h j) sj)) // ler_pemulr //.
exact: le_trans (gain_ge1 j (h j) sj).
Qed.

(** The thresholds: which numbers of draws are not bad. *)
Theorem threshold c x s (G : R) : 1 <= G ->
  (gain c x s <= G) =
    if (2 <= x)%N then s%:R <= (G - 1) * (x%:R - 1 + prior c)
    else (s == 0)%N || (s%:R <= (retention c * G - 1) * prior c).
Proof.
move=> G1; rewrite /gain; case: ifP => [x2|_].
  have pos : 0 < x%:R - 1 + prior c.
    by case: x x2 => // x x2; rewrite -[x.+1]addn1 natrD addrK; exact: count_prior_gt0.
  by rewrite -ler_subr_addl ler_pdivr_mulr.
case: s => [|s] //=.
by rewrite ler_pdivr_mulr ?retention_gt0 // -ler_subr_addl ler_pdivr_mulr // [retention c * G]mulrC.
Qed.

End Mechanism.

(** * Lemma 8: independent pools.

    Pools may have different inputs and different sets of outputs: both depend on the pool. *)

From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From OdsynthProofs Require Import Basics.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section DependentProducts.
Variables (R : realFieldType) (P : finType) (O : P -> finType).
Implicit Types (f : {dffun forall p, O p}).

(** The product of sums over the outputs of each pool is the sum over the outputs of all pools. *)
Lemma big_pools (Q : forall p, O p -> R) (B : forall p, pred (O p)) :
  \sum_(f : {dffun forall p, O p} | [forall p, B p (f p)]) \prod_p Q p (f p) = \prod_p \sum_(o | B p o) Q p o.
Proof.
pose T := {p : P & O p}.
pose F p (u : T) : R := if tag u =P p is ReflectT e then Q p (ecast q (O q) e (tagged u)) else 0.
pose C p (u : T) : bool := if tag u =P p is ReflectT e then B p (ecast q (O q) e (tagged u)) else false.
have F_tag p o : F p (Tagged O o) = Q p o.
  by rewrite /F /=; case: eqP => // e; rewrite (eq_irrelevance e erefl).
have C_tag p o : C p (Tagged O o) = B p o.
  by rewrite /C /=; case: eqP => // e; rewrite (eq_irrelevance e erefl).
have one p : \sum_(o | B p o) Q p o = \sum_(u | C p u) F p u.
  have inj : injective (fun o : O p => Tagged O o) by move=> o o' /eqP; rewrite eq_Tagged => /eqP.
  rewrite (eq_bigr (fun o => F p (Tagged O o))) => [|o _]; last by rewrite F_tag.
  rewrite -(big_imset (F p) (A := [pred o | B p o])) /=; last by move=> o o' _ _; exact: inj.
  apply: eq_bigl => u; apply/imsetP/idP => [[o Bo ->]|Cu]; first by rewrite C_tag.
  move: (Cu); rewrite /C; case: eqP => // e _; case: u e Cu => q o /= e; subst q => Cu.
  by exists o => //; rewrite inE -C_tag.
rewrite (eq_bigr (fun p => \sum_(u | C p u) F p u)) => [|p _]; last exact: one.
rewrite bigA_distr_big_dep /=.
pose all f : {ffun P -> T} := [ffun p => Tagged O (f p)].
have inj : injective all.
  move=> f g /ffunP e; apply/ffunP => p; have := e p; rewrite !ffunE => /eqP; by rewrite eq_Tagged => /eqP.
rewrite (eq_bigr (fun f => \prod_p F p (all f p))) => [|f _]; last by apply: eq_bigr => p _; rewrite ffunE F_tag.
rewrite -(big_imset (fun g : {ffun P -> T} => \prod_p F p (g p)) (A := [pred f : {dffun forall p, O p} | [forall p, B p (f p)]])) /=; last by move=> f g _ _; exact: inj.
apply: eq_bigl => g; apply/imsetP/familyP => [[f]|Cg].
  by rewrite inE => /forallP Bf -> p; rewrite ffunE -[_ \in _]/(C p (Tagged O (f p))) C_tag.
have tags p : tag (g p) = p by have := Cg p; rewrite -[_ \in _]/(C p (g p)) /C; case: eqP.
pose f : {dffun forall p, O p} := [ffun p => ecast q (O q) (tags p) (tagged (g p))].
have gf : g = all f.
  apply/ffunP => p; rewrite !ffunE; move: (tags p); case: (g p) => q o /= e.
  by subst q.
exists f => //; rewrite inE; apply/forallP => p; have := Cg p; rewrite gf ffunE -[_ \in _]/(C p (Tagged O (f p))) C_tag.
by [].
Qed.

End DependentProducts.

Section Pools.
Variables (R : realFieldType) (Pool : finType) (X : Pool -> Type) (O : Pool -> finType).
Variables (valid : forall p, X p -> Prop) (neighbour : forall p, X p -> X p -> Prop).
Variable P : forall p, X p -> O p -> R.
Hypothesis mechanisms : forall p, is_mechanism (@valid p) (@P p).

(** A run: pools draw independently; a neighbour changes one of them. *)
Definition inputs := forall p, X p.
Definition run_valid (h : inputs) := forall p, valid (h p).
Definition run_neighbour (h h' : inputs) := exists2 p, neighbour (h p) (h' p) & forall q, q != p -> h q = h' q.
Definition run (h : inputs) (y : {dffun forall p, O p}) : R := \prod_p P (h p) (y p).

Lemma run_is_a_mechanism : is_mechanism run_valid run.
Proof.
move=> h vh; split=> [y|]; first by apply: prodr_ge0 => p _; case: (mechanisms (vh p)).
transitivity (\prod_p \sum_(o | predT o) P (h p) o); last first.
  by rewrite big1 // => p _; case: (mechanisms (vh p)).
rewrite -(@big_pools R Pool O (fun p => P (h p)) (fun p => predT)).
by apply: eq_bigl => y; apply/esym/forallP.
Qed.

(** The distribution of the output of one pool. *)
Lemma marginal_of_pool h p (B : pred (O p)) : run_valid h ->
  probability run h (fun y => B (y p)) = probability (@P p) (h p) B.
Proof.
move=> vh; pose C q : pred (O q) := fun o => if q =P p is ReflectT e then B (ecast r (O r) e o) else true.
have Cp o : C p o = B o by rewrite /C; case: eqP => // e; rewrite (eq_irrelevance e erefl).
have Cq q o : q != p -> C q o by rewrite /C; case: eqP.
rewrite /probability (eq_bigl (fun y : {dffun forall p, O p} => [forall q, C q (y q)])) => [|y]; last first.
  apply/idP/forallP => [By q|/(_ p)]; last by rewrite Cp.
  by have [->|] := eqVneq q p; [rewrite Cp | exact: Cq].
rewrite /run (@big_pools R Pool O (fun q => P (h q)) C) (bigD1 p) //= (eq_bigl B) => [|o]; last exact: Cp.
rewrite [X in _ * X]big1 ?mulr1 // => q qp; rewrite (eq_bigl predT) => [|o]; last exact: Cq.
by case: (mechanisms (vh q)).
Qed.

(** A choice for every pool: there are finitely many. *)
Lemma choose (phi : forall p, pred (O p) -> Prop) : (forall p, exists B, phi p B) -> exists B, forall p, phi p (B p).
Proof.
move=> some; suff : exists B : forall p, pred (O p), forall p, p \in enum Pool -> phi p (B p).
  by case=> B ok; exists B => p; apply: ok; rewrite mem_enum.
elim: (enum Pool) => [|q s [B ok]]; first by exists (fun p => pred0).
have [Bq okq] := some q.
exists (fun p => if p =P q is ReflectT e then (fun o => Bq (ecast r (O r) e o)) : pred (O p) else B p) => p.
rewrite inE; case: eqP => [e _|_ /=]; last exact: ok.
by subst p.
Qed.

(** Lemma 8: (max eps, sum delta)-pdp, ... *)
Theorem pools_pdp (E delta : Pool -> R) (Emax : R) : (forall p, E p <= Emax) -> 1 <= Emax ->
  (forall p, pdp (@valid p) (@neighbour p) (@P p) (E p) (delta p)) ->
  pdp run_valid run_neighbour run Emax (\sum_p delta p).
Proof.
move=> EE E1 pd h vh.
have [B ok] := choose (fun p => let '(ex_intro2 B a b) := pd p (h p) (vh p) in ex_intro _ B (conj a b)).
exists (fun y : {dffun forall p, O p} => [exists p, B p (y p)]).
  apply: (@le_trans _ _ (\sum_p probability run h (fun y => B p (y p)))).
    rewrite /probability (eq_bigr (fun p => \sum_(y : {dffun forall p, O p}) (B p (y p))%:R * run h y)) => [|p _]; last first.
      by rewrite big_mkcond; apply: eq_bigr => y _; case: ifP; rewrite ?mul1r ?mul0r.
    have run0 y : 0 <= run h y by case: (run_is_a_mechanism vh).
    rewrite exchange_big [X in X <= _]big_mkcond /=; apply: ler_sum => y _; case: ifPn => [/existsP[p Bp]|_].
      by rewrite (bigD1 p) //= Bp mul1r ler_addl sumr_ge0 // => q _; rewrite mulr_ge0 ?ler0n.
    by apply: sumr_ge0 => p _; rewrite mulr_ge0 ?ler0n.
  by apply: ler_sum => p _; rewrite marginal_of_pool //; case: (ok p).
move=> h' y vh' [p nb same]; rewrite negb_exists => /forallP fine.
have [one two] := (ok p).2 (h' p) (y p) (vh' p) nb (fine p).
have pos q : 0 <= P (h q) (y q) by case: (mechanisms (vh q)).
have pos' q : 0 <= P (h' q) (y q) by case: (mechanisms (vh' q)).
have hp : run h y = P (h p) (y p) * \prod_(q | q != p) P (h q) (y q) by rewrite /run (bigD1 p).
have hp' : run h' y = P (h' p) (y p) * \prod_(q | q != p) P (h q) (y q).
  by rewrite /run (bigD1 p) //=; congr (_ * _); apply: eq_bigr => q qp; rewrite same.
have rest0 : 0 <= \prod_(q | q != p) P (h q) (y q) by apply: prodr_ge0 => q _; exact: pos.
rewrite hp hp' !mulrA; split; apply: ler_wpmul2r => //.
  by apply: le_trans one _; rewrite ler_wpmul2r.
by apply: le_trans two _; rewrite ler_wpmul2r.
Qed.

(** ... and (eps, max delta)-DP. The sets A_u of what the pool p may give, where all others give what they give in u. *)
Theorem pools_dp (E delta : R) : 0 <= delta ->
  (forall p, dp (@valid p) (@neighbour p) (@P p) E delta) -> dp run_valid run_neighbour run E delta.
Proof.
move=> delta0 each h h' vh vh' [p nb same] A.
rewrite -ler_subl_addl.
have D0 x : 0 <= Num.max 0 x :> R by rewrite le_maxr lexx.
have pos q o : 0 <= P (h q) o by case: (mechanisms (vh q)).
pose Q q (o : O q) : R := if q == p then Num.max 0 (P (h q) o - E * P (h' q) o) else P (h q) o.
have Q0 q o : 0 <= Q q o by rewrite /Q; case: ifP.
apply: (@le_trans _ _ (\sum_(y : {dffun forall p, O p}) \prod_q Q q (y q))).
  rewrite /probability mulr_sumr -sumrB [X in X <= _]big_mkcond /=; apply: ler_sum => y _.
  case: ifP => _; last by apply: prodr_ge0 => q _; exact: Q0.
  rewrite /run (bigD1 p) //= [\prod_q P (h' q) _](bigD1 p) //= [X in _ <= X](bigD1 p) //=.
  have -> : \prod_(q | q != p) P (h' q) (y q) = \prod_(q | q != p) P (h q) (y q).
    by apply: eq_bigr => q qp; rewrite same.
  have -> : \prod_(q | q != p) Q q (y q) = \prod_(q | q != p) P (h q) (y q).
    by apply: eq_bigr => q /negPf qp; rewrite /Q qp.
  rewrite mulrA -mulrBl ler_wpmul2r //; first by apply: prodr_ge0 => q _; exact: pos.
  by rewrite /Q eqxx le_maxr lexx orbT.
have -> : \sum_(y : {dffun forall p, O p}) \prod_q Q q (y q) = \prod_q \sum_(o | predT o) Q q o.
  by rewrite -big_pools; apply: eq_bigl => y; apply/esym/forallP.
rewrite (bigD1 p) //= [X in _ * X]big1 ?mulr1 => [|q /negPf qp]; last first.
  rewrite (eq_bigr (fun o => P (h q) o)) => [|o _]; last by rewrite /Q qp.
  by case: (mechanisms (vh q)).
have := each p (h p) (h' p) (vh p) (vh' p) nb (fun o => E * P (h' p) o < P (h p) o).
rewrite -ler_subl_addl /probability mulr_sumr -sumrB; apply: le_trans.
rewrite [X in _ <= X]big_mkcond /=; apply: ler_sum => o _; rewrite /Q eqxx.
by case: ltP => le; rewrite le_maxl ?lexx ?subr_ge0 ?subr_le0 ?andbT // ltW.
Qed.

End Pools.

// Package plan decides what has to change in a cloud account: computed policies and the observed
// cloud go in, an ordered list of idempotent operations and a status for every policy and VM come
// out.
//
// It owns the meaning of policies on interfaces (the algebra of rules, tiers, Pass, the native
// tier), the forming of classes of interfaces that share security groups, and the order of changes.
// It promises, for one Compute call:
//
//   - Exactness: once the plan is done and further calls return empty plans, every interface under
//     control allows exactly the flows that the policies (and, in open directions, its former
//     groups) allow.
//   - No gap, no leak, at the cloud's API: while policies change, after every single operation
//     what the groups say of every flow lies between (before and after) and (before or after),
//     where after is the state that this plan leads to; while they do not, it is that of some mix
//     of the old and the new memberships of its two ends. So a crash at any point is harmless. What
//     has no such order stays as it is and is refused as blocked. When packets see an operation is
//     not modelled.
//   - No memory: everything is derived from Input. Planning again from any intermediate state leads
//     to the same end.
//   - Whatever the cloud cannot hold is refused with the numbers, and nothing is touched for it.
//
// A plan may be one of several rounds (Plan.Partial): observe, compute and apply until the plan is
// empty.
//
// Compute is a pure function: no I/O, no clock, no randomness, no goroutines. It may be called
// concurrently; it does not change its input, and its result shares no memory that anybody writes
// to.
//
// # The layers, by an example
//
// Each layer is a package that knows those before it. Below is what each makes of three VMs, two
// policies and one edit; TestLayers prints it and holds it against this comment.
//
// web, app and db have a security group each, which lets SSH in and everything out. Policy p0 lets
// app reach web on port 80, and policy p1 lets web reach db on port 5432.
//
// Package intent reads what applies to which VM. Sets of addresses are in addrset, services and
// what is allowed of them in flow, and what security groups mean is in model:
//
//	web: p0 allows ingress of [tcp 80] with members of app
//	db: p1 allows ingress of [tcp 5432] with members of web
//
// Package guard decides what becomes of each interface. web and db come under control. app needs no
// rules, but the rules of web have to name it:
//
//	eni-web is Guarded
//	eni-app is Member
//	eni-db is Guarded
//
// Package design gives interfaces that are alike one group: a class. Package form finds rules that
// say what a class must allow. p0 and p1 say nothing of egress, so that direction stays open:
// what the former groups allow there becomes a rule of ours. SSH is not let in any more, for in
// ingress an Allow rule applies now:
//
//	ours-web for eni-web
//	  egress all to 0.0.0.0/0
//	  ingress tcp 80 from group ours-app
//	ours-db for eni-db
//	  egress all to 0.0.0.0/0
//	  ingress tcp 5432 from group ours-web
//	ours-app for eni-app
//
// Package transition gets two snapshots, observed and wanted, and finds the way. Of every edit it
// asks what the cloud would do with packets after it: no flow may be open that neither state
// allows, none cut that both allow, and there has to be room. Steps of one stage may be done in any
// order. Rules come before members, so nobody is cut off; what an interface had is remembered
// before it is taken over; and which policies are in force is said last:
//
//	stage 0: Tag vpc: policies apply in this network
//	stage 1: CreateGroup ours-app: member class, interfaces: 1
//	stage 1: CreateGroup ours-web: guarded class, interfaces: 1
//	stage 1: CreateGroup ours-db: guarded class, interfaces: 1
//	stage 2: AddRules ours-web (2 rules): with what the former groups allow
//	stage 2: AddRules ours-db (2 rules): with what the former groups allow
//	stage 3: Tag eni-web: remember its groups
//	stage 3: Tag eni-db: remember its groups
//	stage 4: SetInterfaceGroups eni-web = ours-web: take over
//	stage 4: SetInterfaceGroups eni-app = sg-app ours-app
//	stage 4: SetInterfaceGroups eni-db = ours-db: take over
//	stage 5: Tag vpc: which policies are in force
//
// Package report tells what is in force and what is refused, in reasons that are values; package
// words makes sentences of them when all is decided:
//
//	p0: in force on 0 VMs, to come on 1
//	p1: in force on 0 VMs, to come on 1
//
// Now p0 is edited: port 8080 in place of 80. The classes are the same, so no interface is touched.
// The rule is turned into the other one by one call. No flow is open for a moment that neither
// version allows, and the mark of the network says meanwhile that policies change:
//
//	stage 1: Untag vpc: which policies are in force
//	stage 1: ReplaceRules ours-web (1 rules)
//	stage 2: Tag vpc: which policies are in force
//
// Where there is no such order the change is held back to what is allowed both before and after
// (guard.States.Restrict), in this region or at the other end of a flow in another one, and the
// next plan does the rest. What is still blocked stays as it is, and its VM says why, until
// somebody gives the word with which it goes on, closing first (Input.Force). Decision 0018 lists
// what else there is, and which user needs it.
package plan

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/tier"
)

// The policies of the scenario. Between them they use every action, policy- and rule-level
// appliedTo, three tiers, overlapping ipBlocks with exceptions, port ranges, ICMP, and both
// directions.
const policiesYAML = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: db-from-app}
spec:
  priority: 5
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]
  ingress:
  - action: Allow
    from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: app}}}]
    ports: [{protocol: TCP, port: 5432}, {protocol: TCP, port: 8000, endPort: 8010}]
  - action: Allow
    from: [{externalEntitySelector: {matchExpressions: [{key: nephe.antrea.io/tag-role, operator: In, values: [app, db]}]}}]
    protocols: [{icmp: {icmpType: 8}}]
  - action: Allow
    from: [{ipBlock: {cidr: 198.51.100.0/24}}]
    ports: [{protocol: TCP, port: 443}]
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: no-ssh-from-outside}
spec:
  priority: 10
  tier: securityops
  appliedTo: [{namespaceSelector: {}, externalEntitySelector: {matchExpressions: [{key: nephe.antrea.io/tag-role, operator: Exists}]}}]
  ingress:
  - action: Pass
    from: [{ipBlock: {cidr: 198.51.100.0/25}}]
    ports: [{protocol: TCP, port: 22}]
  - action: Drop
    from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16]}}]
    ports: [{protocol: TCP, port: 22}]
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: baseline-no-mysql}
spec:
  priority: 1
  tier: baseline
  appliedTo: [{externalEntitySelector: {matchExpressions: [{key: nephe.antrea.io/tag-role, operator: Exists}]}}]
  ingress:
  - action: Drop
    ports: [{protocol: TCP, port: 3306}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: app-egress}
spec:
  priority: 7
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: app}}}]
  egress:
  - action: Reject
    to: [{ipBlock: {cidr: 203.0.113.0/24}}]
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]
  - action: Allow
    to: [{ipBlock: {cidr: 0.0.0.0/0}}]
    ports: [{protocol: TCP, port: 443}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: per-rule}
spec:
  priority: 3.5
  tier: platform
  ingress:
  - action: Allow
    appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}]
    ports: [{protocol: TCP, port: 443}]
  - action: Drop
    appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]
    from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}]
    ports: [{protocol: TCP, port: 8005}]
`

// decodePolicies reads the policies as a user's kubectl would.
func decodePolicies(t *testing.T, text string) []client.Object {
	t.Helper()
	var out []client.Object
	for _, doc := range strings.Split(text, "\n---\n") {
		var o client.Object = &v1beta1.NetworkPolicy{}
		if strings.Contains(doc, "kind: ClusterNetworkPolicy") {
			o = &v1beta1.ClusterNetworkPolicy{}
		}
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			t.Fatal(err)
		}
		// The oracle computes before the API server has given a UID.
		o.SetUID(types.UID("expected-" + o.GetName()))
		out = append(out, o)
	}
	return out
}

// TestAccounts drives every account from import to release and compares the simulator's verdict
// with the policy engine's for every ordered pair of interfaces and every outside address, at every
// boundary port, after every step; and after every single call in between, that nothing is open
// which neither the former nor the next policies allow. At each commit it is one account; others
// are driven by TestKilledAtAnyMoment, and by TestRealAccountsCycle (internal/cloud/realize).
func TestAccounts(t *testing.T) {
	t.Parallel()
	for _, ac := range []accountCase{webTier, hybridCloud, collector(t)}[:tier.Pick(1, 1, 3)] {
		t.Run(ac.name, func(t *testing.T) {
			t.Parallel()
			im := importAccount(t, pooledCluster(t), ac)
			runScenario(im, ac)
		})
	}
}

// TestOnTheWire is the same with a cloud that puts each edit into force at each interface after
// some time, with a controller that is told how long that takes.
func TestOnTheWire(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestPropagation and TestFaultsOnTheWire (internal/cloud/realize) with the same delay")
	ac := webTier
	ac.effects = effect.Delay{Bound: 400 * time.Millisecond, Seed: seed.Of(t)}
	runScenario(importAccount(t, newCluster(t, "--propagation", ac.effects.Bound.String()), ac), ac)
}

// runScenario goes through the life of the policies of an account.
func runScenario(im *imported, ac accountCase) {
	t := im.t
	policies := decodePolicies(t, policiesYAML)

	for _, p := range policies {
		next := im.oracle.copy()
		next.policies = append(next.policies, p)
		im.step("create "+p.GetName(), next, func() { im.create(p) })
	}
	im.waitForPhase(policies, v1beta1.NetworkPolicyRealized)
	im.mustBeRealizedOnVMs()
	im.commandsAgree(ac)

	moved, former := firstWithRole(ac, "app"), "app"
	im.step("label change", im.oracle.withRole(moved, "db"), func() { im.setRole(moved, "db") })
	im.step("label change back", im.oracle.withRole(moved, former), func() { im.setRole(moved, former) })

	edited := policies[0].DeepCopyObject().(*v1beta1.NetworkPolicy)
	edited.Spec.Ingress[0].Ports[0].Port.IntVal = 3306
	edited.Spec.Ingress[2].Action = v1beta1.RuleActionDrop
	next := im.oracle.copy()
	next.policies[0] = edited
	im.step("edit db-from-app", next, func() {
		live := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: edited.Namespace, Name: edited.Name}}
		edit(t, im.c.client, live, func() { live.Spec = edited.Spec })
	})

	im.launchAndTerminate(ac)

	for len(im.oracle.policies) > 0 {
		im.deleteFirst()
	}
	im.mustBeReleased()
}

func (im *imported) must(err error) {
	im.t.Helper()
	if err != nil {
		im.t.Fatal(err)
	}
}

// create creates a copy of the object, without the UID that stands in for the real one.
func (im *imported) create(o client.Object) {
	im.t.Helper()
	fresh := o.DeepCopyObject().(client.Object)
	fresh.SetUID("")
	im.apply(fresh)
}

func firstWithRole(ac accountCase, role string) string {
	first := ""
	for vm, r := range ac.roles {
		if r == role && (first == "" || vm < first) {
			first = vm
		}
	}
	return first
}

// waitForPhase waits until the status of every policy is about its newest version and has the
// phase.
func (im *imported) waitForPhase(policies []client.Object, phase v1beta1.NetworkPolicyPhase) {
	im.t.Helper()
	for _, p := range policies {
		eventually(im.t, "status of "+p.GetName(), func(ctx context.Context) (bool, string) {
			var st v1beta1.NetworkPolicyStatus
			var generation int64
			var err error
			if p.GetNamespace() == "" {
				var live v1beta1.ClusterNetworkPolicy
				err = im.c.client.Get(ctx, client.ObjectKeyFromObject(p), &live)
				st, generation = live.Status, live.Generation
			} else {
				var live v1beta1.NetworkPolicy
				err = im.c.client.Get(ctx, client.ObjectKeyFromObject(p), &live)
				st, generation = live.Status, live.Generation
			}
			if err != nil {
				return false, err.Error()
			}
			return st.Phase == phase && st.ObservedGeneration == generation, fmt.Sprintf("generation %d, status %+v", generation, st)
		})
	}
}

// mustBeRealizedOnVMs checks what the VirtualMachine objects say about policies.
func (im *imported) mustBeRealizedOnVMs() {
	im.t.Helper()
	eventually(im.t, "the policies in the status of the VMs", func(ctx context.Context) (bool, string) {
		var vms cloudv1.VirtualMachineList
		if err := im.c.client.List(ctx, &vms, client.InNamespace(vmNamespace)); err != nil {
			return false, err.Error()
		}
		for _, vm := range vms.Items {
			for _, p := range vm.Status.Policies {
				if p.Phase != cloudv1.PolicyPhaseRealized {
					return false, fmt.Sprintf("%s: %+v", vm.Name, p)
				}
			}
			if vm.Spec.Tags["role"] == "db" && len(vm.Status.Policies) != 4 {
				return false, fmt.Sprintf("%s names %d policies, want the 4 that apply to role db: %+v", vm.Name, len(vm.Status.Policies), vm.Status.Policies)
			}
			for _, n := range vm.Status.NetworkInterfaces {
				if vm.Spec.Tags["role"] != "" && len(n.FormerSecurityGroupIds) == 0 {
					return false, fmt.Sprintf("%s does not say which groups %s had before", vm.Name, n.Name)
				}
			}
		}
		return true, ""
	})
}

// TestTakeOverThatWouldCutOthers: a service's interface refers to the bastion's group. A policy on
// the bastion would cut it off, so it is refused, says why, and changes nothing.
func TestTakeOverThatWouldCutOthers(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestDecideStates (internal/cloud/plan/guard) refuses it, TestSentences (plan/words) says why, TestVirtualMachineStatus (realize/status) tells it")
	im := importAccount(t, newCluster(t), webTier)
	const bastion = "i-00000000000000000"
	im.setRole(bastion, "bastion")
	im.waitForRoles(map[string]string{bastion: "bastion", "i-00000000000000001": "app", "i-00000000000000002": "db"})
	p := decodePolicies(t, `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: bastion-ssh}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: bastion}}}]
  ingress:
  - {action: Allow, from: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [{protocol: TCP, port: 22}]}
`)[0]
	// The oracle does not get the policy: nothing may change.
	im.step("refused policy", im.oracle, func() { im.create(p) })
	im.waitForPhase([]client.Object{p}, v1beta1.NetworkPolicyFailed)
	eventually(t, "the reason in the VM's status", func(ctx context.Context) (bool, string) {
		var vm cloudv1.VirtualMachine
		if err := im.c.client.Get(ctx, client.ObjectKey{Namespace: vmNamespace, Name: bastion}, &vm); err != nil {
			return false, err.Error()
		}
		text := fmt.Sprintf("%+v", vm.Status.Policies)
		return strings.Contains(text, "sg-00000002") && strings.Contains(text, "eni-00000001"), text
	})
	eventually(t, "a warning on the VM that its policy is refused", func(ctx context.Context) (bool, string) {
		var events corev1.EventList
		err := im.c.client.List(ctx, &events, client.InNamespace(vmNamespace))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == bastion && e.Type == corev1.EventTypeWarning
		}), fmt.Sprint(err, len(events.Items))
	})
	im.must(im.c.client.Delete(t.Context(), &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "bastion-ssh"}}))
	im.mustBeReleased()
}

// commandsAgree asks the commands about the live cluster: nothing is left to do, and the deciding
// rules are named.
func (im *imported) commandsAgree(ac accountCase) {
	t := im.t
	t.Helper()
	kubeconfig := filepath.Join(im.c.dir, "kubeconfig")
	if code, out, errOut := run(t, "plan", "--local", "--kubeconfig", kubeconfig); code != 0 {
		t.Errorf("nephele plan says %d, want 0: everything is realized\n%s%s", code, out, errOut)
	}
	im.plansAgree(kubeconfig)
	im.servedPolicies()
	db := vmNamespace + "/" + firstWithRole(ac, "db")
	for _, tc := range []struct {
		from, protocol, port string
		code                 int
		names                string
	}{
		{"203.0.113.7", "TCP", "22", 1, "no-ssh-from-outside"},
		{vmNamespace + "/" + firstWithRole(ac, "app"), "TCP", "5432", 0, "db-from-app"},
		{"203.0.113.7", "TCP", "8000", 1, "db-from-app"},
	} {
		code, out, errOut := run(t, "explain", "--kubeconfig", kubeconfig, "--from", tc.from, "--to", db, "--protocol", tc.protocol, "--port", tc.port)
		if code != tc.code || !strings.Contains(out, tc.names) {
			t.Errorf("nephele explain %s -> %s %s %s: exit code %d, want %d and the policy %s named\n%s%s", tc.from, db, tc.protocol, tc.port, code, tc.code, tc.names, out, errOut)
		}
		localCode, local, localErr := run(
			t, "explain", "--local", "--kubeconfig", kubeconfig, "--from", tc.from, "--to", db, "--protocol", tc.protocol, "--port", tc.port)
		if localCode != code || local != out {
			t.Errorf("the controller and --local differ about %s -> %s:\n%s%s%s%s", tc.from, db, out, errOut, local, localErr)
		}
	}
	for _, args := range [][]string{{"reach", "--to", db, "--port", "5432"}, {"rules", "--of", db}} {
		code, out, errOut := run(t, append(args, "--kubeconfig", kubeconfig)...)
		if code != 0 || !strings.Contains(out, "db-from-app") {
			t.Errorf("nephele %v: exit code %d, want 0 and the policy db-from-app named\n%s%s", args, code, out, errOut)
		}
	}
	im.reviewsAreLimited(db)
}

// plansAgree asks the controller what would change, and works the same out with --local. The
// controller may not have read the latest change yet.
func (im *imported) plansAgree(kubeconfig string) {
	t := im.t
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	im.must(os.WriteFile(policy, []byte(`apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: proposed, namespace: `+vmNamespace+`}
spec:
  priority: 1
  appliedTo: [{externalEntitySelector: {}}]
  ingress: [{name: monitoring, action: Allow, from: [{ipBlock: {cidr: 192.0.2.77/32}}], ports: [{protocol: TCP, port: 9100}]}]
`), 0o600))
	for _, args := range [][]string{{}, {"-f", policy}, {"-f", policy, "-o", "json"}, {"-f", policy, "--all"}} {
		args = append([]string{"plan", "--kubeconfig", kubeconfig}, args...)
		eventuallyTold(t, fmt.Sprintf("the same answer to %v", args), func(context.Context) (bool, string) {
			code, out, errOut := run(t, args...)
			localCode, local, localErr := run(t, append(args, "--local")...)
			if code == 2 || strings.Contains(errOut, "worked out here") || len(args) > 4 && !strings.Contains(out, "9100") {
				return false, fmt.Sprintf("exit code %d\n%s%s", code, out, errOut)
			}
			return code == localCode && out == local, fmt.Sprintf("exit codes %d and %d:\n%s%s\n--local:\n%s%s", code, localCode, out, errOut, local, localErr)
		})
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	im.must(os.WriteFile(wrong, []byte("# nothing here\n---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: wrong, namespace: "+vmNamespace+"}\n"+
		"spec:\n  priority: 1\n  tier: nowhere\n  appliedTo: [{externalEntitySelector: {}}]\n  ingress: [{action: Allow}]\n"), 0o600))
	code, _, errOut := run(t, "plan", "--kubeconfig", kubeconfig, "-f", wrong)
	localCode, _, localErr := run(t, "plan", "--local", "--kubeconfig", kubeconfig, "-f", wrong)
	if code != 2 || localCode != 2 || errOut != localErr || !strings.Contains(errOut, "wrong.yaml:8") {
		t.Errorf("a wrong manifest: exit codes %d and %d, want 2, and both name its line:\n%s\n--local:\n%s", code, localCode, errOut, localErr)
	}
}

// reviewsAreLimited asks as somebody who may ask, and may read policies in another Namespace only.
func (im *imported) reviewsAreLimited(db string) {
	t := im.t
	t.Helper()
	const stranger = "somebody-else"
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(im.c.dir, "kubeconfig"))
	im.must(err)
	im.apply(
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reviews-of-" + stranger}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-reviewer"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: stranger}},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reviews-of-" + stranger}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: stranger}},
		},
	)
	cfg.Impersonate.UserName = stranger
	scheme, err := kinds.Scheme()
	im.must(err)
	as, err := client.New(cfg, client.Options{Scheme: scheme})
	im.must(err)
	eventually(t, "a review by somebody else", func(ctx context.Context) (bool, string) {
		all := &analysis.ReachReview{Spec: analysis.ReachReviewSpec{To: "any", Refused: true}}
		if err := as.Create(ctx, all); err != nil {
			return false, err.Error()
		}
		if len(all.Status.Flows) > 0 || !all.Status.Limited {
			return false, fmt.Sprintf("he is told %+v", all.Status)
		}
		err := as.Create(ctx, &analysis.FlowReview{Spec: analysis.FlowReviewSpec{From: "203.0.113.7", To: db, Port: "22"}})
		return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "there is no Pod"), fmt.Sprint(err)
	})
	if err := as.Create(t.Context(), &analysis.PlanReview{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user with nephele-reviewer alone may ask for plans: %v", err)
	}
	im.apply(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "plans-of-" + stranger}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-planner"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: stranger}},
	})
	eventually(t, "a plan of somebody else", func(ctx context.Context) (bool, string) {
		plan := &analysis.PlanReview{Spec: analysis.PlanReviewSpec{Map: true}}
		if err := as.Create(ctx, plan); err != nil {
			return false, err.Error()
		}
		if s := plan.Status; len(s.Accounts) > 0 || !s.Limited || s.Map == nil || len(s.Map.Nodes) > 0 {
			return false, fmt.Sprintf("he is told %+v", s)
		}
		plan = &analysis.PlanReview{Spec: analysis.PlanReviewSpec{
			Manifests: "{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {name: g, namespace: " + vmNamespace + "}, spec: {externalEntitySelector: {}}}",
			Delete:    []analysis.ObjectReference{{Group: "crd.antrea.io", Kind: "NetworkPolicy", Namespace: vmNamespace, Name: "db-from-app"}},
		}}
		if err := as.Create(ctx, plan); err != nil {
			return false, err.Error()
		}
		errs := plan.Status.Errors
		return len(errs) == 2 && errs[0].Reason == analysis.ErrorForbidden && errs[1].Reason == analysis.ErrorForbidden, fmt.Sprintf("%+v", errs)
	})
}

// servedPolicies lists the computed policies of the account's key through kube-apiserver, as any
// enforcer may.
func (im *imported) servedPolicies() {
	t := im.t
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(im.c.dir, "kubeconfig"))
	im.must(err)
	api, err := kubernetes.NewForConfig(cfg)
	im.must(err)
	eventually(t, "the computed policies through the aggregated API", func(ctx context.Context) (bool, string) {
		raw, err := api.RESTClient().Get().AbsPath("/apis/controlplane.antrea.io/v1beta2/networkpolicies").
			Param("fieldSelector", "nodeName=cloud/cloud/real").SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return false, err.Error()
		}
		var list struct {
			Items []struct {
				SourceRef struct{ Name string }
			}
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return false, err.Error()
		}
		return len(list.Items) == len(im.oracle.policies), fmt.Sprintf("%d policies, want %d: %+v", len(list.Items), len(im.oracle.policies), list)
	})
}

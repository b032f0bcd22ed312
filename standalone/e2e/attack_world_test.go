package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// The attack tests have two tenants. The owner has the Namespace ns-a and a cloud account with VMs
// under policy; the attacker has ns-b and a cloud account of her own. Both accounts are in one
// simulator, beside one that the controller's own identity belongs to.
const (
	ownerNS, attackerNS       = "ns-a", "ns-b"
	ownerCloud, attackerCloud = "111111111111", "222222222222"
	controllerCloud           = "333333333333"
	commonCloud               = "444444444444"
	tenantRegion              = "eu-west-1"
	ownerKey, attackerKey     = "AKIAOWNEROWNEROWNER0", "AKIAATTACKERATTACKER"
	controllerKey, commonKey  = "AKIACONTROLLER000000", "AKIACOMMONCOMMON0000"
	keySecret                 = "not/secret+in+a+simulator"
	accountName               = "real"
)

// tenants is the cloud of the attack tests.
type tenants struct {
	t      *testing.T
	server *sim.Server
	guard  *guard
	// vms are the primary interfaces by the name of the VM: web, db and bastion of the owner, mine
	// and spare of the attacker, and common.
	vms map[string]aws.NetworkInterface
	// vpc is the VPC of each cloud account.
	vpc map[string]string
	// flows are all that concern the owner's VMs.
	flows []flow
}

// newTenants starts the simulator. Every VM is wide open natively: whatever is closed, a policy
// closes, and releasing a VM opens it.
func newTenants(t *testing.T) *tenants {
	t.Helper()
	x := &tenants{t: t, guard: &guard{}, vms: map[string]aws.NetworkInterface{}, vpc: map[string]string{}}
	var state aws.State
	for _, id := range []string{ownerCloud, attackerCloud, controllerCloud, commonCloud} {
		state.Accounts = append(state.Accounts, aws.Account{ID: id, Regions: []string{tenantRegion}})
	}
	w, err := world.New(state, world.Options{})
	must(t, err)
	for i, tenant := range []struct {
		cloud, key string
		vms        []string
	}{{ownerCloud, ownerKey, []string{"web", "db", "bastion"}}, {attackerCloud, attackerKey, []string{"mine", "spare"}}, {commonCloud, commonKey, []string{"common"}}} {
		must(t, w.AddCredential(aws.Credential{AccessKeyID: tenant.key, Secret: keySecret, Account: tenant.cloud}))
		r, err := w.Region(tenant.cloud, tenantRegion)
		must(t, err)
		vpc, err := r.Networks().CreateVPC(aws.CreateVPCInput{CIDR: fmt.Sprintf("10.%d.0.0/16", i+1)})
		must(t, err)
		x.vpc[tenant.cloud] = vpc.ID
		subnet, err := r.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: vpc.ID, CIDR: fmt.Sprintf("10.%d.1.0/24", i+1)})
		must(t, err)
		g, err := r.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "open", Description: "all from everywhere", VPCID: vpc.ID})
		must(t, err)
		_, err = r.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: g.ID, Permissions: []aws.Permission{{Protocol: "-1", CIDRs: []aws.CIDRPeer{{CIDR: "0.0.0.0/0"}}}}})
		must(t, err)
		for n, role := range tenant.vms {
			out, err := r.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{g.ID},
				PrivateIP: fmt.Sprintf("10.%d.1.%d", i+1, 10+n), Tags: map[string]aws.Tags{"instance": {"role": role, "Name": role}}})
			must(t, err)
			x.vms[role] = out.Instances[0].NetworkInterfaces[0]
		}
	}
	must(t, w.AddCredential(aws.Credential{AccessKeyID: controllerKey, Secret: keySecret, Account: controllerCloud}))
	state = w.State()
	// The owner has a role for the controller, which trusts the account that the controller runs
	// in.
	state.Roles = append(state.Roles, aws.Role{Account: ownerCloud, Name: "nephele", Trusted: []string{controllerCloud}})
	x.server, err = sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state, OnCall: x.guard.onCall})
	must(t, err)
	t.Cleanup(func() {
		if err := x.server.Close(); err != nil {
			t.Error(err)
		}
	})
	x.guard.mu.Lock()
	x.guard.server = x.server
	x.guard.mu.Unlock()
	outside := []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("203.0.113.66")}
	for _, vm := range []string{"mine", "spare"} {
		outside = append(outside, x.vms[vm].PrivateIPs[0].Addr)
	}
	for _, f := range flowsOf(x.server.World().State(), outside, boundaryServices(22, 443, 5432)) {
		if f.svc.protocol == policy.SCTP {
			continue
		}
		if of(f.src, ownerCloud, x) || of(f.dst, ownerCloud, x) {
			x.flows = append(x.flows, f)
		}
	}
	return x
}

func of(e end, cloud string, x *tenants) bool { return e.nic != "" && e.vpc == x.vpc[cloud] }

// id is the id of a VM.
func (x *tenants) id(vm string) string { return x.vms[vm].Attachment.InstanceID }

// entity is the name of the ExternalEntity of a VM.
func (x *tenants) entity(vm string) string { return "virtualmachine-" + x.id(vm) }

// allowed asks the simulator whether somebody may reach a port of a VM.
func (x *tenants) allowed(from end, vm string, port int) bool {
	v, err := x.server.World().Allowed(flow{src: from, dst: end{nic: x.vms[vm].ID}, svc: service{protocol: policy.TCP, port: uint16(port), worldProto: 6}}.inWorld())
	must(x.t, err)
	return v.Allowed
}

// state is what a cloud account looks like: what its interfaces hold, its groups with their rules,
// and all tags. The number that an instance of Nephele counts its heartbeats with is left out.
func (x *tenants) state(cloud string) string {
	var lines []string
	tags := func(t aws.Tags) string {
		t = maps.Clone(t)
		if _, ok := t["nephele.io/instance"]; ok {
			t["nephele.io/instance"] = "of a process that runs" // another one after every start
		}
		return fmt.Sprint(t)
	}
	for _, r := range x.server.World().State().Regions {
		if r.Account != cloud {
			continue
		}
		for _, v := range r.VPCs {
			lines = append(lines, fmt.Sprintf("network %s %s", v.ID, tags(v.Tags)))
		}
		for _, n := range r.NetworkInterfaces {
			lines = append(lines, fmt.Sprintf("interface %s %v %s", n.ID, n.Groups, tags(n.Tags)))
		}
		for _, i := range r.Instances {
			lines = append(lines, fmt.Sprintf("instance %s %v %s", i.ID, i.State, tags(i.Tags)))
		}
		for _, g := range r.SecurityGroups {
			lines = append(lines, fmt.Sprintf("group %s %s %s", g.ID, g.Name, tags(g.Tags)))
			for _, rule := range g.Rules {
				peer := fmt.Sprint(rule.CIDR, rule.PrefixListID)
				if rule.Group != nil {
					peer = rule.Group.GroupID
				}
				lines = append(lines, fmt.Sprintf("rule of %s: egress %t %s %d-%d %s", g.ID, rule.Egress, rule.Protocol, rule.FromPort, rule.ToPort, peer))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// personas are the roles that Nephele ships for people.
var personas = []string{"account-administrator", "selector-administrator", "policy-author", "break-glass-operator", "auditor"}

// mallory has all that the personas give together.
const mallory = "mallory"

// arena is one control plane with both tenants.
type arena struct {
	*tenants
	c     *cluster
	admin *rest.Config
	// people are clients in the name of: for every persona a person with "edit" and it in ns-b, and
	// mallory.
	people map[string]client.Client
	// marks is how often the owner has changed something to see whether that still works; before is
	// what held then.
	marks  int
	before [2]picture
	// kept is what belongs into ns-b between two attempts.
	kept []*unstructured.Unstructured
	// lost says that the owner's estate could not be brought back to what it was before an attempt.
	lost bool
}

// newArena starts a control plane whose tenants are set up and that enforces the owner's policies.
func newArena(t *testing.T, x *tenants, env map[string]string, flags ...string) *arena {
	t.Helper()
	a := &arena{tenants: x, c: startCluster(&cluster{t: t, env: env, args: knownFlags(t, flags...)}), people: map[string]client.Client{}}
	var err error
	a.admin, err = clientcmd.BuildConfigFromFlags("", filepath.Join(a.c.dir, "kubeconfig"))
	must(t, err)
	a.admin.QPS, a.admin.Burst = 500, 1000
	a.roles()
	for _, p := range append(slices.Clone(personas), mallory) {
		a.people[p] = a.as(p)
	}
	t.Cleanup(func() {
		if t.Failed() {
			a.printAll()
		}
	})
	return a
}

// as returns a client in the name of a user.
func (a *arena) as(user string) client.Client {
	a.t.Helper()
	cfg := rest.CopyConfig(a.admin)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	cfg.WarningHandler = rest.NoWarnings{}
	return newClient(a.t, cfg)
}

// roles makes the Namespaces and gives people their rights.
func (a *arena) roles() {
	a.t.Helper()
	for _, name := range []string{ownerNS, attackerNS} {
		a.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	// "nephele up" may leave to the user of a cluster what edit and view mean for our kinds.
	for _, o := range built(a.t, manifests) {
		if o.GetKind() == "ClusterRole" && (o.GetName() == "nephele-edit" || o.GetName() == "nephele-view") {
			a.ensure(o)
		}
	}
	for _, p := range personas {
		a.ensure(personaRole(p))
	}
	for _, p := range append(slices.Clone(personas), mallory) {
		bound := []string{"edit"}
		if p != mallory {
			bound = append(bound, "nephele-"+p)
		} else {
			for _, each := range personas {
				bound = append(bound, "nephele-"+each)
			}
		}
		for _, role := range bound {
			a.bind(attackerNS, p, "ClusterRole", role)
		}
	}
	eventuallyNil(a.t, "the rights of mallory", func(ctx context.Context) error {
		who := a.as(mallory)
		policy := fromText(
			a.t,
			"{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {namespace: ns-b, name: probe}, spec: {priority: 5, appliedTo: [{podSelector: {}}]}}",
		)
		return client.NewDryRunClient(who).Create(ctx, policy)
	})
}

// personaRole is what a persona may at least do. It is used with builds that ship no such role, so
// that what such a person can do there can be seen; TestGrantsAreShipped tells those builds apart.
func personaRole(persona string) *unstructured.Unstructured {
	rules := map[string]string{
		"account-administrator": "{apiGroups: [crd.cloud.antrea.io], resources: [cloudprovideraccounts], verbs: [get, list, watch, create, update, patch, delete, use]}",
		"selector-administrator": "{apiGroups: [crd.cloud.antrea.io], resources: [cloudentityselectors], verbs: [get, list, watch, create, update, patch, delete]}, " +
			"{apiGroups: [crd.cloud.antrea.io], resources: [virtualmachines], verbs: [get, list, watch, update, patch]}",
		"policy-author":        "{apiGroups: [crd.antrea.io], resources: [networkpolicies, groups], verbs: [get, list, watch, create, update, patch, delete]}",
		"break-glass-operator": "{apiGroups: [crd.cloud.antrea.io], resources: [cloudentityselectors, virtualmachines], verbs: [get, list, watch, update, patch, breakglass]}",
		"auditor":              "{apiGroups: [crd.cloud.antrea.io, crd.antrea.io], resources: [cloudprovideraccounts, cloudentityselectors, virtualmachines, vpcs, networkpolicies, externalentities], verbs: [get, list, watch]}",
	}
	o := &unstructured.Unstructured{}
	if err := yamlInto("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: nephele-"+persona+"}, rules: ["+rules[persona]+"]}", o); err != nil {
		panic(err)
	}
	return o
}

// bind gives a user a role in a Namespace.
func (a *arena) bind(namespace, user, kind, role string) *rbacv1.RoleBinding {
	a.t.Helper()
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user + "-" + role},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	a.create(b)
	return b
}

// create makes an object as the administrator.
func (a *arena) create(o client.Object) {
	a.t.Helper()
	if err := a.c.client.Create(a.t.Context(), o); err != nil {
		a.t.Fatalf("create %T %s/%s: %v", o, o.GetNamespace(), o.GetName(), err)
	}
}

// ensure makes an object that may be there already.
func (a *arena) ensure(o client.Object) {
	a.t.Helper()
	if err := a.c.client.Create(a.t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		a.t.Fatal(err)
	}
}

// text makes objects of a template: the words in braces are replaced by what is said.
func (a *arena) text(text string, more ...string) *unstructured.Unstructured {
	a.t.Helper()
	words := append([]string{"{SIM}", a.server.URL(), "{WEB}", a.id("web"), "{DB}", a.id("db"), "{BASTION}", a.id("bastion"), "{MINE}", a.id("mine"),
		"{VPC-A}", a.vpc[ownerCloud], "{VPC-B}", a.vpc[attackerCloud]}, more...)
	return fromText(a.t, strings.NewReplacer(words...).Replace(text))
}

// knownFlags drops flags that the build does not know, and fails the test for each, so that the
// rest of it can still be seen.
func knownFlags(t *testing.T, flags ...string) []string {
	t.Helper()
	help := upHelp(t)
	var out []string
	for _, f := range flags {
		name, _, _ := strings.Cut(f, "=")
		if !strings.Contains(help, name+" ") {
			t.Errorf("nephele up has no flag %s; going on without", name)
			continue
		}
		out = append(out, f)
	}
	return out
}

var upHelpOnce = sync.OnceValues(func() (string, error) {
	var out bytes.Buffer
	cmd := exec.Command(binary, "up", "--help")
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
})

func upHelp(t *testing.T) string {
	t.Helper()
	text, err := upHelpOnce()
	must(t, err)
	return text
}

func yamlInto(text string, o *unstructured.Unstructured) error {
	return yaml.Unmarshal([]byte(text), &o.Object)
}

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }

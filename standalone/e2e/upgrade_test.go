package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// The recorded data of a former build; testdata/upgrade/README.md says of which, and how it was
// made.
const (
	upgradeDir = "testdata/upgrade"
	// upgradeEndpoint is where the simulator of the recording listens, because the recorded
	// accounts name it.
	upgradeEndpoint = "127.0.0.1:18555"
)

var recordUpgrade = flag.Bool("record-upgrade", false, "TestUpgrade makes its data with this build, instead of starting from what is there")

// upgradeObjects are what is in the recorded cluster: account and selector in Namespaces of their
// own, as in Nephe's samples, a second Namespace that selects some of the same VMs, a second
// account in mode plan, one VM with broken glass and one that a person has given a tag.
const upgradeObjects = `
{apiVersion: v1, kind: Namespace, metadata: {name: cloud}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: vms}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: cloud, name: keys}, stringData: {credentials: '{"accessKeyId": "{KEY-A}", "accessKeySecret": "{SECRET}"}'}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: cloud, name: other}, stringData: {credentials: '{"accessKeyId": "{KEY-B}", "accessKeySecret": "{SECRET}"}'}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: cloud, name: real}
spec:
  pollIntervalInSeconds: 60
  maxPerWave: 3
  failsafe: [{direction: Ingress, protocol: TCP, port: 2222, cidrs: [10.99.0.0/16]}]
  awsConfig: {region: [eu-west-1], endpoint: "http://{LISTEN}", secretRef: {namespace: cloud, name: keys, key: credentials}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: cloud, name: other}
spec:
  mode: plan
  awsConfig: {region: [eu-west-1], endpoint: "http://{LISTEN}", secretRef: {namespace: cloud, name: other, key: credentials}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: vms, name: all}
spec: {accountNamespace: cloud, accountName: real, vmSelector: [{vpcMatch: {matchID: "{VPC-A}"}}]}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: team, name: databases}
spec: {accountNamespace: cloud, accountName: real, vmSelector: [{vmMatch: [{matchName: db}]}]}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: team, name: other}
spec: {accountNamespace: cloud, accountName: other, vmSelector: [{vpcMatch: {matchID: "{VPC-B}"}}]}
---
{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: first}, spec: {priority: 10, description: before all others}}
---
{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: branches}, spec: {ipBlocks: [{cidr: 198.51.100.0/24}]}}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: db-from-web}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]
  ingress: [{action: Allow, from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}], ports: [{protocol: TCP, port: 5432}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: no-ssh}
spec:
  priority: 5
  tier: first
  appliedTo: [{namespaceSelector: {}, externalEntitySelector: {matchExpressions: [{key: nephe.antrea.io/tag-role, operator: In, values: [web, db, bastion]}]}}]
  ingress:
  - {action: Pass, from: [{group: branches}], ports: [{protocol: TCP, port: 22}]}
  - {action: Drop, ports: [{protocol: TCP, port: 22}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: web-out}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}]
  egress: [{action: Allow, to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: team, name: databases}
spec:
  priority: 3
  tier: securityops
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-name: db}}}]
  ingress: [{action: Allow, from: [{ipBlock: {cidr: 203.0.113.0/24}}], ports: [{protocol: TCP, port: 443}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: vms, name: by-hand}
spec:
  priority: 7
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-given: by-hand}}}]
  ingress: [{action: Allow, from: [{ipBlock: {cidr: 203.0.113.0/24}}], ports: [{protocol: TCP, port: 443}]}]
`

// upgrade is the recorded cloud with a cluster of the recording on it.
type upgrade struct {
	t      *testing.T
	server *sim.Server
	vms    map[string]aws.NetworkInterface // by name
	vpc    map[string]string               // by account
	flows  []flow
	guard  *guard
	mu     sync.Mutex
	calls  []ec2.Call // that change something
}

// upgradeState is the cloud of the recording before anything was done to it.
func upgradeState(t *testing.T) aws.State {
	var state aws.State
	for _, id := range []string{ownerCloud, attackerCloud} {
		state.Accounts = append(state.Accounts, aws.Account{ID: id, Regions: []string{tenantRegion}})
	}
	w, err := world.New(state, world.Options{})
	must(t, err)
	for i, tenant := range []struct {
		cloud, key string
		vms        []string
	}{{ownerCloud, ownerKey, []string{"web", "db", "bastion", "given", "free"}}, {attackerCloud, attackerKey, []string{"planned"}}} {
		must(t, w.AddCredential(aws.Credential{AccessKeyID: tenant.key, Secret: keySecret, Account: tenant.cloud}))
		r, err := w.Region(tenant.cloud, tenantRegion)
		must(t, err)
		vpc, err := r.Networks().CreateVPC(aws.CreateVPCInput{CIDR: fmt.Sprintf("10.%d.0.0/16", i+1)})
		must(t, err)
		subnet, err := r.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: vpc.ID, CIDR: fmt.Sprintf("10.%d.1.0/24", i+1)})
		must(t, err)
		var groups []string
		for n, cidr := range []string{"0.0.0.0/0", fmt.Sprintf("10.%d.0.0/16", i+1)} {
			g, err := r.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: fmt.Sprint("native-", n), Description: "native", VPCID: vpc.ID})
			must(t, err)
			_, err = r.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: g.ID, Permissions: []aws.Permission{{Protocol: "-1", CIDRs: []aws.CIDRPeer{{CIDR: cidr}}}}})
			must(t, err)
			groups = append(groups, g.ID)
		}
		for n, role := range tenant.vms {
			_, err := r.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: groups,
				PrivateIP: fmt.Sprintf("10.%d.1.%d", i+1, 10+n), Tags: map[string]aws.Tags{"instance": {"role": role, "Name": role}}})
			must(t, err)
		}
	}
	return w.State()
}

// startUpgrade starts the simulator with a state.
func startUpgrade(t *testing.T, state aws.State) *upgrade {
	t.Helper()
	u := &upgrade{t: t, vms: map[string]aws.NetworkInterface{}, vpc: map[string]string{}, guard: &guard{}}
	// Somebody else on this machine may run the same test.
	must(t, soon(t, func(context.Context) (err error) {
		u.server, err = sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state, Listen: upgradeEndpoint, OnCall: u.onCall})
		return err
	}))
	t.Cleanup(func() {
		if err := u.server.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, r := range state.Regions {
		for _, n := range r.NetworkInterfaces {
			for _, i := range r.Instances {
				if n.Attachment != nil && n.Attachment.InstanceID == i.ID {
					u.vms[i.Tags["Name"]] = n
				}
			}
		}
		for _, v := range r.VPCs {
			u.vpc[r.Account] = v.ID
		}
	}
	for _, f := range flowsOf(state, []netip.Addr{mustAddr("8.8.8.8"), mustAddr("203.0.113.7"), mustAddr("198.51.100.9"), mustAddr("10.99.0.1")}, boundaryServices(22, 443, 2222, 5432)) {
		if f.svc.protocol != policy.SCTP {
			u.flows = append(u.flows, f)
		}
	}
	return u
}

func (u *upgrade) onCall(ctx context.Context, c ec2.Call) error {
	if !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") {
		u.mu.Lock()
		u.calls = append(u.calls, c)
		u.mu.Unlock()
	}
	return u.guard.onCall(ctx, c)
}

// changing returns the calls so far that changed something.
func (u *upgrade) changing() []ec2.Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.calls)
}

// newTag are the tags that builds after the recording put beside those that are there.
var newTag = regexp.MustCompile(`^nephele\.io/(instance|former-signature)(\.\d+)?$`)

// TestUpgrade starts this build on the data directory of a former one, with the cloud as that one
// has left it. Everything stays enforced in every instant; nothing is changed in the cloud but that
// tags are added; and from there on all works as ever, up to giving everything back.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if *recordUpgrade {
		record(t)
	}
	u := startUpgrade(t, readState(t))
	want := observe(u.server.World(), u.flows)
	u.guard.mu.Lock()
	u.guard.server = u.server
	u.guard.mu.Unlock()
	if n := count(want); n == 0 || n == len(want) {
		t.Fatalf("%d of %d flows are allowed: the recording enforces nothing", n, len(want))
	}
	// What a person's own tag decides is looked at for itself.
	var byTag, others []flow
	var byTagWant, othersWant []bool
	for i, f := range u.flows {
		if f.src.vm == u.vms["given"].Attachment.InstanceID || f.dst.vm == u.vms["given"].Attachment.InstanceID {
			byTag, byTagWant = append(byTag, f), append(byTagWant, want[i])
		} else {
			others, othersWant = append(others, f), append(othersWant, want[i])
		}
	}
	u.guard.between(others, othersWant, othersWant)
	c := u.cluster(t)
	u.waitRead(t, c)
	u.edit(t, c, 20001)
	t.Run("enforced", func(t *testing.T) {
		if n, text := differences(others, othersWant, observe(u.server.World(), others)); n > 0 {
			t.Errorf("%d FLOWS HAVE CHANGED:%s", n, text)
		}
		if n, text := u.guard.takeViolations(); n > 0 {
			t.Errorf("%d violations on the way:\n  %s", n, text)
		}
	})
	t.Run("tags given by hand", func(t *testing.T) {
		if n, text := differences(byTag, byTagWant, observe(u.server.World(), byTag)); n > 0 {
			t.Errorf("%d FLOWS HAVE CHANGED THAT A TAG IN spec.tags OF A VirtualMachine DECIDES:%s", n, text)
		}
	})
	t.Run("only tags are added", func(t *testing.T) {
		calls := u.changing()
		if len(calls) == 0 {
			t.Error("not even the edit of the policy was seen")
		}
		for _, call := range calls {
			if why := harmless(call); why != "" {
				t.Errorf("%s: %s %v", why, call.Action, call.Params)
			}
		}
	})
	t.Run("statuses", func(t *testing.T) { u.statuses(t, c) })
	t.Run("samples", func(t *testing.T) { samplesApply(t, c) })
	t.Run("given back", func(t *testing.T) { u.giveBack(t, c) })
}

// harmless returns what a call does beyond adding new tags and the edit of the test; "" if nothing.
func harmless(call ec2.Call) string {
	switch call.Action {
	case "CreateTags", "DeleteTags":
		for k, v := range call.Params {
			if !strings.HasPrefix(k, "Tag.") || !strings.HasSuffix(k, ".Key") || strings.HasPrefix(v, cloud.TagRevision) {
				continue // the edit takes away what says which policies are in force, and writes it when they are
			}
			if call.Action == "DeleteTags" || !newTag.MatchString(v) {
				return "the tag " + v
			}
		}
		return ""
	case "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress", "ModifySecurityGroupRules":
		ports := 0
		for k, v := range call.Params {
			if strings.HasSuffix(k, "Port") {
				if ports++; v != "20001" {
					return "a rule for port " + v
				}
			}
		}
		if ports > 0 {
			return ""
		}
	case "AssumeRole", "ReceiveMessage", "DeleteMessageBatch":
		return ""
	}
	return "a change"
}

// cluster starts this build on the recorded data directory.
func (u *upgrade) cluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), listen: freeAddress(t)}
	unpack(t, filepath.Join(upgradeDir, "etcd.tar.gz"), c.dir)
	t.Cleanup(func() {
		if t.Failed() {
			c.printLogs()
		}
		c.stop()
	})
	c.start()
	c.waitReady()
	return c
}

// waitRead waits until this process has read both accounts.
func (u *upgrade) waitRead(t *testing.T, c *cluster) {
	t.Helper()
	began := time.Now().Add(-time.Minute)
	for _, name := range []string{"real", "other"} {
		eventuallyNil(t, "account "+name+" is read", func(ctx context.Context) error {
			var cpa cloudv1.CloudProviderAccount
			if err := c.client.Get(ctx, client.ObjectKey{Namespace: "cloud", Name: name}, &cpa); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(cpa.Status.Conditions, cloudv1.ConditionReady) || cpa.Status.LastSyncTime == nil || cpa.Status.LastSyncTime.Time.Before(began) {
				return fmt.Errorf("%+v", cpa.Status)
			}
			return nil
		})
	}
}

// edit adds a port to a policy and waits until it is in force: by then this process has planned the
// account and is done with it.
func (u *upgrade) edit(t *testing.T, c *cluster, port int) {
	t.Helper()
	np := &v1beta1.NetworkPolicy{}
	key := client.ObjectKey{Namespace: "vms", Name: "db-from-web"}
	eventuallyNil(t, "the policy takes the edit", func(ctx context.Context) error {
		if err := c.client.Get(ctx, key, np); err != nil {
			return err
		}
		extra := np.Spec.Ingress[0].Ports[0].DeepCopy()
		extra.Port.IntVal = int32(port)
		np.Spec.Ingress[0].Ports = append(np.Spec.Ingress[0].Ports[:1], *extra)
		return c.client.Update(ctx, np)
	})
	eventuallyNil(t, "the edit is in force", func(ctx context.Context) error {
		v, err := u.server.World().
			Allowed(flow{src: end{nic: u.vms["web"].ID}, dst: end{nic: u.vms["db"].ID}, svc: service{protocol: policy.TCP, port: uint16(port), worldProto: 6}}.inWorld())
		if err != nil || !v.Allowed {
			return fmt.Errorf("%t %w", v.Allowed, errOr(err))
		}
		if err := c.client.Get(ctx, key, np); err != nil {
			return err
		}
		if np.Status.Phase != v1beta1.NetworkPolicyRealized || np.Status.ObservedGeneration != np.Generation {
			return fmt.Errorf("generation %d, %+v", np.Generation, np.Status)
		}
		return nil
	})
}

// statuses: what was good in the recording is good now, and nothing is refused that was granted.
func (u *upgrade) statuses(t *testing.T, c *cluster) {
	var vms cloudv1.VirtualMachineList
	var selectors cloudv1.CloudEntitySelectorList
	must(t, c.client.List(t.Context(), &vms))
	must(t, c.client.List(t.Context(), &selectors))
	if len(vms.Items) != 7 {
		t.Errorf("%d VirtualMachines, want 7", len(vms.Items))
	}
	for _, vm := range vms.Items {
		want := map[string]string{"planned": "plan"}[vm.Status.CloudName]
		if vm.Status.CloudName == "free" {
			// Somebody has broken the glass in a Namespace that has no word of the account's owner
			// for it. The VM's condition says so.
			want = ""
			if c := meta.FindStatusCondition(vm.Status.Conditions, cloudv1.ConditionHeeded); c == nil || c.Status != "False" {
				t.Errorf("%s/%s does not say that its break-glass is not heeded: %+v", vm.Namespace, vm.Name, vm.Status.Conditions)
			}
		}
		if vm.Status.Mode != want {
			t.Errorf("%s/%s %s: mode %q (%s), want %q", vm.Namespace, vm.Name, vm.Status.CloudName, vm.Status.Mode, vm.Status.ModeReason, want)
		}
	}
	for _, s := range selectors.Items {
		if !meta.IsStatusConditionTrue(s.Status.Conditions, cloudv1.ConditionReady) {
			t.Errorf("selector %s/%s: %+v", s.Namespace, s.Name, s.Status.Conditions)
		}
	}
}

// samplesApply applies every sample that is shipped, and Nephe's own, as the administrator of a
// cluster. Nothing is kept of them.
func samplesApply(t *testing.T, c *cluster) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	must(t, err)
	cfg.QPS, cfg.Burst = 200, 400
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:authenticated"}}
	must(
		t,
		c.client.Create(
			t.Context(),
			fromText(
				t,
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: jane}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]}",
			),
		),
	)
	jane := newClient(t, cfg)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	must(t, err)
	nephe, err := filepath.Glob(filepath.Join(upgradeDir, "nephe", "*.yaml"))
	must(t, err)
	if len(files) < 5 || len(nephe) == 0 {
		t.Fatalf("%d and %d samples", len(files), len(nephe))
	}
	var objects []*unstructured.Unstructured
	for _, file := range append(files, nephe...) {
		raw, err := os.ReadFile(file)
		must(t, err)
		for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(raw), -1) {
			o := fromText(t, doc)
			switch o.GetKind() {
			case "":
			case "Namespace", "Tier": // the others need them
				must(t, client.IgnoreAlreadyExists(c.client.Create(t.Context(), o)))
			default:
				objects = append(objects, o)
			}
		}
	}
	for _, o := range objects {
		for who, as := range map[string]client.Client{"the administrator": c.client, "a cluster-admin": jane} {
			if err := soon(t, func(ctx context.Context) error { return client.NewDryRunClient(as).Create(ctx, o.DeepCopy()) }); err != nil {
				t.Errorf("%s cannot apply %s %s/%s: %v", who, o.GetKind(), o.GetNamespace(), o.GetName(), err)
			}
		}
	}
}

// giveBack deletes everything, and looks whether the cloud is as it was before the recording.
func (u *upgrade) giveBack(t *testing.T, c *cluster) {
	native := map[string][]string{}
	for _, r := range upgradeState(t).Regions {
		for _, n := range r.NetworkInterfaces {
			for _, g := range n.Groups {
				native[r.Account+" "+fmt.Sprint(n.PrimaryIP().Addr)] = append(native[r.Account+" "+fmt.Sprint(n.PrimaryIP().Addr)], g.Name)
			}
		}
	}
	docs := strings.Split(upgradeObjects, "\n---\n")
	slices.Reverse(docs)
	for _, doc := range docs {
		o := u.object(t, doc)
		if k := o.GetKind(); k == "NetworkPolicy" || k == "ClusterNetworkPolicy" || k == "CloudEntitySelector" || k == "CloudProviderAccount" {
			must(t, client.IgnoreNotFound(c.client.Delete(t.Context(), o)))
		}
	}
	eventuallyNil(t, "everything is given back", func(context.Context) error {
		var wrong []error
		for _, r := range u.server.World().State().Regions {
			for _, n := range r.NetworkInterfaces {
				var held []string
				for _, g := range n.Groups {
					held = append(held, g.Name)
				}
				if want := native[r.Account+" "+fmt.Sprint(n.PrimaryIP().Addr)]; !slices.Equal(slices.Sorted(slices.Values(held)), slices.Sorted(slices.Values(want))) {
					wrong = append(wrong, fmt.Errorf("%s holds %v, had %v", n.ID, held, want))
				}
				wrong = append(wrong, ourTags(n.ID, n.Tags))
			}
			for _, g := range r.SecurityGroups {
				wrong = append(wrong, ourTags(g.ID, g.Tags))
			}
			for _, v := range r.VPCs {
				wrong = append(wrong, ourTags(v.ID, v.Tags))
			}
		}
		return errors.Join(wrong...)
	})
}

func ourTags(id string, tags aws.Tags) error {
	if why := ownTags(id, tags); why != "" {
		return errors.New(why)
	}
	return nil
}

// object makes an object of the recording.
func (u *upgrade) object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return fromText(t, strings.NewReplacer("{LISTEN}", upgradeEndpoint, "{KEY-A}", ownerKey, "{KEY-B}", attackerKey, "{SECRET}", keySecret,
		"{VPC-A}", u.vpc[ownerCloud], "{VPC-B}", u.vpc[attackerCloud]).Replace(text))
}

// record makes the data of the test anew with the build at hand.
func record(t *testing.T) {
	u := startUpgrade(t, upgradeState(t))
	c := newCluster(t)
	for _, doc := range strings.Split(upgradeObjects, "\n---\n") {
		must(t, c.client.Create(t.Context(), u.object(t, doc)))
	}
	patchVM := func(name, text string) {
		o := &cloudv1.VirtualMachine{}
		o.Namespace, o.Name = "vms", u.vms[name].Attachment.InstanceID
		eventuallyNil(t, "VM "+name, func(ctx context.Context) error {
			return c.client.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(text)))
		})
	}
	patchVM("given", `{"spec": {"tags": {"given": "by-hand"}}}`)
	patchVM("free", `{"metadata": {"annotations": {"nephele.io/break-glass": "under repair"}}}`)
	eventuallyNil(t, "all is enforced and said", func(ctx context.Context) error {
		var policies v1beta1.NetworkPolicyList
		var vms cloudv1.VirtualMachineList
		if err := errors.Join(c.client.List(ctx, &policies), c.client.List(ctx, &vms)); err != nil {
			return err
		}
		for _, p := range policies.Items {
			if p.Status.Phase != v1beta1.NetworkPolicyRealized || p.Status.ObservedGeneration != p.Generation {
				return fmt.Errorf("policy %s: %+v", p.Name, p.Status)
			}
		}
		modes := map[string]int{}
		for _, vm := range vms.Items {
			modes[vm.Status.Mode]++
		}
		if !maps.Equal(modes, map[string]int{"": 5, "break-glass": 1, "plan": 1}) {
			return fmt.Errorf("modes %v", modes)
		}
		return nil
	})
	c.stop()
	must(t, u.server.Close())
	raw, err := json.Marshal(u.server.World().State())
	must(t, err)
	must(t, os.MkdirAll(upgradeDir, 0o755))
	write(t, filepath.Join(upgradeDir, "estate.json.gz"), func(w io.Writer) error { _, err := w.Write(raw); return err })
	write(t, filepath.Join(upgradeDir, "etcd.tar.gz"), func(w io.Writer) error {
		archive := tar.NewWriter(w)
		err := filepath.WalkDir(filepath.Join(c.dir, "etcd"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(c.dir, path)
			if err != nil {
				return err
			}
			if err := archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(data))}); err != nil {
				return err
			}
			_, err = archive.Write(data)
			return err
		})
		return errors.Join(err, archive.Close())
	})
}

// write writes a compressed file.
func write(t *testing.T, path string, fill func(io.Writer) error) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	must(t, err)
	must(t, errors.Join(fill(z), z.Close(), f.Close()))
	info, err := os.Stat(path)
	must(t, err)
	t.Logf("%s: %d kB", path, info.Size()>>10)
}

// open opens a compressed file.
func open(t *testing.T, path string) io.Reader {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	must(t, err)
	return z
}

// readState is the recorded cloud.
func readState(t *testing.T) aws.State {
	t.Helper()
	var s aws.State
	must(t, json.NewDecoder(open(t, filepath.Join(upgradeDir, "estate.json.gz"))).Decode(&s))
	return s
}

// unpack unpacks an archive into a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	r := tar.NewReader(open(t, archive))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		data, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(path, data, 0o600))
	}
}

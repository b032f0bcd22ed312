package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// handed is a VM of a simulated cloud that is a host with an agent, too: a packet reaches it if the
// groups of the cloud let it in and the host does.
type handed struct {
	*agented
	server *sim.Server
	nic    string
	vm     *cloudv1.VirtualMachine

	mu    sync.Mutex
	leaks []string
}

// newHanded makes the VM. Its own group lets port 81 in.
func newHanded(t *testing.T) *handed {
	state := aws.State{Accounts: []aws.Account{{ID: sharingAccount, Regions: []string{sharedRegion}}}}
	w, err := world.New(state, world.Options{})
	must(t, err)
	must(t, w.AddCredential(aws.Credential{AccessKeyID: estate.DefaultAccessKeyID, Secret: estate.DefaultSecret, Account: sharingAccount}))
	r, err := w.Region(sharingAccount, sharedRegion)
	must(t, err)
	vpc, err := r.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.1.0.0/16"})
	must(t, err)
	subnet, err := r.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.1.0/24"})
	must(t, err)
	g, err := r.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "own", Description: "port 81", VPCID: vpc.ID})
	must(t, err)
	_, err = r.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: g.ID, Permissions: []aws.Permission{
		{Protocol: "tcp", FromPort: ptr(int32(81)), ToPort: ptr(int32(81)), CIDRs: []aws.CIDRPeer{{CIDR: "10.1.0.0/16"}}}}})
	must(t, err)
	out, err := r.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{g.ID},
		Tags: map[string]aws.Tags{"instance": {"role": "web"}}})
	must(t, err)
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: w.State()})
	must(t, err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	n := out.Instances[0].NetworkInterfaces[0]
	own := n.PrivateIPs[0].Addr
	h := &handed{agented: newAgented(t, own, own.Next()), server: server, nic: n.ID, vm: &cloudv1.VirtualMachine{}}
	h.vm.Namespace, h.vm.Name = vmNamespace, out.Instances[0].ID
	h.apply(accountObjects(server.URL(), []string{sharedRegion}, []string{vpc.ID})...)
	return h
}

// lets reports whether the cloud lets the peer in at a port.
func (h *handed) lets(port int) bool {
	v, err := h.server.World().Allowed(packet.Flow{Src: packet.End{Addr: h.peerAddr}, Dst: packet.End{NIC: h.nic}, Protocol: 6, Port: port})
	return err == nil && v.Allowed
}

// reaches reports whether the peer reaches a port by both.
func (h *handed) reaches(port int) (bool, error) {
	if !h.lets(port) {
		return false, nil
	}
	h.mu.Lock()
	h.port++
	from := h.port
	h.mu.Unlock()
	got, err := nfttest.Attempt{From: h.peer, Network: "tcp", Source: netip.AddrPortFrom(h.peerAddr, from), Destination: netip.AddrPortFrom(h.addr, uint16(port))}.Run(300 * time.Millisecond)
	return err == nil && got == nfttest.Passed && h.lets(port), err
}

// watch tries port 82 all the time, which nobody ever allows.
func (h *handed) watch() {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if ok, _ := h.reaches(82); ok {
				h.mu.Lock()
				h.leaks = append(h.leaks, time.Now().Format(time.TimeOnly))
				h.mu.Unlock()
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	h.t.Cleanup(func() { cancel(); <-done })
}

// stands waits until ports 80 and 81 can be reached or not, the condition Agented is as wanted, and
// the cloud lets everything in or not. Until then nothing was open that nobody allows.
func (h *handed) stands(what string, want80, want81 bool, condition, message string, wide bool) {
	h.t.Helper()
	eventually(h.t, what, func(ctx context.Context) (bool, string) {
		var got [2]bool
		for i := range got {
			var err error
			if got[i], err = h.reaches(80 + i); err != nil {
				return false, err.Error()
			}
		}
		err := h.client.Get(ctx, client.ObjectKeyFromObject(h.vm), h.vm)
		status, says := "", ""
		if c := meta.FindStatusCondition(h.vm.Status.Conditions, cloudv1.ConditionAgented); c != nil {
			status, says = string(c.Status), c.Message
		}
		return err == nil && got == [2]bool{want80, want81} && status == condition && strings.Contains(says, message) && h.lets(9999) == wide,
			fmt.Sprintf("%v, cloud wide %t, %s %q, %v, %+v", got, h.lets(9999), status, says, err, h.vm.Status.Policies)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.leaks) > 0 {
		h.t.Fatalf("%s: a port was open that nobody allows, at %v", what, h.leaks)
	}
}

// TestAgented hands a VM to its agent and back, in every way that there is: by the selector, by a
// release on the host, by its policies. All the while a port is tried that neither the policies nor
// the VM's own groups allow.
func TestAgented(t *testing.T) {
	t.Parallel()
	h := newHanded(t)
	h.watch()
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: "all"}}
	agented := func(yes bool) {
		t.Helper()
		edit(t, h.client, selector, func() { selector.Spec.VMSelector[0].Agented = yes })
	}
	allow := func(name string, port int, source *int32) *v1beta1.NetworkPolicy {
		return &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: name}, Spec: v1beta1.NetworkPolicySpec{
			Priority:  5,
			AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: "web"}}}},
			Ingress: []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: "10.1.0.0/16"}}},
				Ports: []v1beta1.NetworkPolicyPort{{Port: ptr(intstr.FromInt(port)), SourcePort: source}}}},
		}}
	}
	web := allow("web", 80, nil)
	h.apply(web)
	h.stands("guarded by the cloud", true, false, "", "", false)

	agented(true)
	h.stands("the namespace has no say", true, false, "False", "spec.releaseNamespaces", false)
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"}}
	edit(t, h.client, account, func() { account.Spec.ReleaseNamespaces = []string{vmNamespace} })
	h.stands("no agent has come", true, false, "False", "no agent", false)

	node := cloudv1.EntityNamePrefix + h.vm.Name
	config := h.enroll(vmNamespace + "/" + node)
	stop := h.startAgent(config)
	h.stands("the agent enforces", true, false, "True", "lets in all ingress", true)
	eventually(t, "the policy is realized by both", func(ctx context.Context) (bool, string) {
		err := h.client.Get(ctx, client.ObjectKeyFromObject(web), web)
		return err == nil && web.Status.Phase == v1beta1.NetworkPolicyRealized && web.Status.CurrentNodesRealized == 2, fmt.Sprintf("%+v %v", web.Status, err)
	})
	// What no group can say is enforced by the agent, and refused by nobody.
	odd := allow("odd", 81, ptr(int32(7)))
	h.apply(odd)
	eventually(t, "a source port is no trouble", func(ctx context.Context) (bool, string) {
		err := h.client.Get(ctx, client.ObjectKeyFromObject(odd), odd)
		return err == nil && odd.Status.Phase == v1beta1.NetworkPolicyRealized, fmt.Sprintf("%+v %v", odd.Status, err)
	})
	must(t, h.client.Delete(t.Context(), odd))

	socket := filepath.Join(h.files, "agent.sock")
	if code, out, failed := run(t, "agent", "release", "--for", "1h", "--socket", socket); code != 0 {
		t.Fatal(out, failed)
	}
	h.stands("released on the host, guarded by the cloud", true, false, "False", "released on the host", false)
	if code, out, failed := run(t, "agent", "release", "--end", "--socket", socket); code != 0 {
		t.Fatal(out, failed)
	}
	h.stands("the agent enforces again", true, false, "True", "lets in all ingress", true)

	// The agent is killed, and the controller: what is in force stays so.
	stop(syscall.SIGKILL)
	h.cluster.kill()
	h.cluster.start()
	h.cluster.waitReady()
	h.stands("without an agent for a moment", true, false, "True", "", true)
	stop = h.startAgent(config)

	must(t, h.client.Delete(t.Context(), web))
	h.stands("without policies the own groups decide", false, true, "True", "former groups", false)
	web = allow("web", 80, nil)
	h.apply(web)
	h.stands("with a policy again", true, false, "True", "lets in all ingress", true)

	agented(false)
	h.stands("back to the cloud", true, false, "", "", false)
	eventually(t, "the ExternalNode is gone", func(ctx context.Context) (bool, string) {
		var list v1alpha1.ExternalNodeList
		err := h.client.List(ctx, &list)
		return err == nil && len(list.Items) == 0, fmt.Sprint(list.Items, err)
	})
	h.stands("still guarded by the cloud", true, false, "", "", false)
	stop(syscall.SIGTERM)
	eventually(t, "events tell of the agent", func(ctx context.Context) (bool, string) {
		var events corev1.EventList
		err := h.client.List(ctx, &events, client.InNamespace(vmNamespace))
		seen := map[string]bool{}
		for _, e := range events.Items {
			seen[e.Reason] = true
		}
		return seen["HandedToAgent"] && seen["BackFromAgent"], fmt.Sprint(seen, err)
	})
}

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/sim/sqs"
)

// The account, region and VPC of the estates with native services of AWS.
const (
	nativeAccount = "111122223333"
	nativeRegion  = "eu-west-1"
	nativeVPC     = "vpc-00000001"
)

// nativeArena is a control plane that imports two VMs and all native services of an estate.
type nativeArena struct {
	*imported
	account *cloudv1.CloudProviderAccount
}

// newNativeArena starts one. If queue is set, the account hears of changes by a queue of that name.
func newNativeArena(t *testing.T, text, queue string) *nativeArena {
	t.Helper()
	state := estatetest.Parse(t, text)
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state, Events: sim.EventOptions{Queue: queue}})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	vpcs := []string{nativeVPC}
	a := &nativeArena{imported: &imported{t: t, c: pooledCluster(t), server: server, guard: &guard{}, oracle: oracle{native: map[string][]string{}}, vpcs: vpcs}}
	objects := accountObjects(server.URL(), []string{nativeRegion}, vpcs)
	a.account = objects[3].(*cloudv1.CloudProviderAccount)
	if queue != "" {
		ref := sqs.Ref{Account: nativeAccount, Region: nativeRegion, Name: queue}
		a.account.Spec.AWSConfig.EventQueue = []cloudv1.AWSEventQueue{{URL: server.URL() + ref.Path()}}
	}
	seconds := cloudv1.MinPollIntervalInSeconds
	a.account.Spec.PollIntervalInSeconds = &seconds
	a.apply(objects...)
	a.waitForEntities(2)
	all := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: "services"}}
	all.Spec.AccountNamespace, all.Spec.AccountName = a.account.Namespace, a.account.Name
	all.Spec.NativeSelector = []cloudv1.NativeServiceSelector{{VpcMatch: &cloudv1.EntityMatch{MatchID: nativeVPC}}}
	a.apply(all)
	return a
}

// flow is a flow over TCP in the VPC.
func (a *nativeArena) flow(from, to netip.Addr, port int) packet.Flow {
	end := func(addr netip.Addr) packet.End { return packet.End{Addr: addr, VPC: nativeVPC} }
	return packet.Flow{Src: end(from), Dst: end(to), Protocol: 6, Port: port}
}

// passes asks the simulator.
func (a *nativeArena) passes(from, to netip.Addr, port int) bool {
	a.t.Helper()
	v, err := a.server.World().Allowed(a.flow(from, to, port))
	must(a.t, err)
	return v.Allowed
}

// refuse takes away the right to an action, and waits until the account says which one is missing
// and goes on.
func (a *nativeArena) refuse(action, right string) {
	a.t.Helper()
	a.server.Faults().Add(ec2.Fault{Action: action, Code: "AccessDenied", Message: "not authorized to perform " + right, Status: 403, Times: -1})
	eventually(a.t, "the missing right is told", func(ctx context.Context) (bool, string) {
		now := &cloudv1.CloudProviderAccount{}
		err := a.c.client.Get(ctx, client.ObjectKeyFromObject(a.account), now)
		c := meta.FindStatusCondition(now.Status.Conditions, cloudv1.ConditionServicesRead)
		return err == nil && c != nil && c.Status == metav1.ConditionFalse && c.Reason == cloudv1.ReasonNotPermitted && strings.Contains(c.Message, right) &&
			meta.IsStatusConditionTrue(now.Status.Conditions, cloudv1.ConditionReady), fmt.Sprintf("%+v %v", now.Status.Conditions, err)
	})
}

// serviceNamed is a native service of a Namespace by its name in the cloud.
func serviceNamed(ctx context.Context, c client.Client, namespace, name string) (cloudv1.CloudNativeService, error) {
	var list cloudv1.CloudNativeServiceList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return cloudv1.CloudNativeService{}, err
	}
	at := slices.IndexFunc(list.Items, func(s cloudv1.CloudNativeService) bool { return s.Status.CloudName == name })
	if at < 0 {
		return cloudv1.CloudNativeService{}, fmt.Errorf("there is no %s among %d services", name, len(list.Items))
	}
	return list.Items[at], nil
}

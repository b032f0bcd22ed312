package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	sharingAccount     = "111111111111"
	participantAccount = "222222222222"
	sharedRegion       = "eu-west-1"
)

// shared is a VPC of one cloud account with VMs of two: of its owner, and of a participant with
// whom its subnet is shared.
type shared struct {
	*imported
	vpc string
	// nics are the interfaces of the VMs "owner-web", "owner-db", "participant-web" and
	// "participant-db".
	nics map[string]aws.NetworkInterface
}

func newShared(t *testing.T) *shared {
	t.Helper()
	s := &shared{nics: map[string]aws.NetworkInterface{}}
	accounts := []string{sharingAccount, participantAccount}
	state := aws.State{Accounts: []aws.Account{{ID: sharingAccount, Regions: []string{sharedRegion}}, {ID: participantAccount, Regions: []string{sharedRegion}}}}
	w, err := world.New(state, world.Options{})
	must(t, err)
	owner, err := w.Region(sharingAccount, sharedRegion)
	must(t, err)
	vpc, err := owner.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.1.0.0/16"})
	must(t, err)
	subnet, err := owner.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.1.0/24"})
	must(t, err)
	state = w.State()
	for r := range state.Regions {
		for i := range state.Regions[r].Subnets {
			state.Regions[r].Subnets[i].SharedWith = []string{participantAccount}
		}
	}
	w, err = world.New(state, world.Options{})
	must(t, err)
	for i, name := range []string{"owner", "participant"} {
		must(t, w.AddCredential(aws.Credential{AccessKeyID: "AKIA" + strings.ToUpper(name), Secret: name, Account: accounts[i]}))
		r, err := w.Region(accounts[i], sharedRegion)
		must(t, err)
		g, err := r.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "inside", Description: "all from the VPC", VPCID: vpc.ID})
		must(t, err)
		_, err = r.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: g.ID, Permissions: []aws.Permission{{Protocol: "-1", CIDRs: []aws.CIDRPeer{{CIDR: "10.1.0.0/16"}}}}})
		must(t, err)
		for _, role := range []string{"web", "db"} {
			out, err := r.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{g.ID},
				Tags: map[string]aws.Tags{"instance": {"role": role, "Name": name + "-" + role}}})
			must(t, err)
			s.nics[name+"-"+role] = out.Instances[0].NetworkInterfaces[0]
		}
	}
	s.vpc = vpc.ID
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: w.State()})
	must(t, err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	s.imported = &imported{t: t, c: pooledCluster(t), server: server, guard: &guard{}, oracle: oracle{native: map[string][]string{}}}
	for _, n := range s.nics {
		s.oracle.native[n.ID] = []string{n.Groups[0].ID}
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.printStatus()
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// importAs makes the cluster import what one of the cloud accounts has in the VPC, as an account of
// that name.
func (s *shared) importAs(name string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: name}, StringData: map[string]string{
		"credentials": fmt.Sprintf(`{"accessKeyId": %q, "accessKeySecret": %q}`, "AKIA"+strings.ToUpper(name), name)}}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: name}}
	account.Spec.DeletionPolicy = cloudv1.DeletionRelease
	account.Spec.AWSConfig = &cloudv1.CloudProviderAccountAWSConfig{Region: []string{sharedRegion}, Endpoint: s.server.URL(),
		SecretRef: &cloudv1.SecretReference{Namespace: "cloud", Name: name, Key: "credentials"}}
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: name}}
	selector.Spec.AccountNamespace, selector.Spec.AccountName = "cloud", name
	selector.Spec.VMSelector = []cloudv1.VirtualMachineSelector{{VpcMatch: &cloudv1.EntityMatch{MatchID: s.vpc}}}
	s.apply(secret, account, selector)
}

// mean waits until the VMs may reach one another at two ports, but for what is denied.
func (s *shared) mean(what string, denied func(from, to string, port int) bool) {
	s.t.Helper()
	eventually(s.t, what, func(context.Context) (bool, string) {
		wrong := ""
		for from, a := range s.nics {
			for to, b := range s.nics {
				for _, port := range []int{22, 5432} {
					v, err := s.server.World().Allowed(packet.Flow{Src: packet.End{NIC: a.ID}, Dst: packet.End{NIC: b.ID}, Protocol: 6, Port: port})
					if want := from == to || !denied(from, to, port); err != nil || v.Allowed != want {
						wrong += fmt.Sprintf("\n%s to %s at %d: %t, %v", from, to, port, v.Allowed, err)
					}
				}
			}
		}
		return wrong == "", wrong
	})
}

// TestSharedVPC: two accounts of the cluster, in one Namespace, see one VPC, as its owner and as a
// participant. A policy about the VMs of both holds for both, between them too; neither account
// touches what is the other's; and each can go without the other.
func TestSharedVPC(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	s.apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vmNamespace}})
	s.importAs("owner")
	s.importAs("participant")
	s.waitVMs(4)
	policy := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: "db-from-web"}}
	role := func(r string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: r}}
	}
	decoded := decodePolicies(t, strings.ReplaceAll(policiesYAML, "db-from-app", "db-from-web"))[0].(*v1beta1.NetworkPolicy)
	policy.Spec = decoded.Spec
	policy.Spec.Ingress = policy.Spec.Ingress[:1]
	policy.Spec.Ingress[0].From[0].ExternalEntitySelector = role("web")
	s.apply(policy)
	s.mean("databases from web servers of both", func(from, to string, port int) bool {
		return strings.HasSuffix(to, "-db") && (port != 5432 || !strings.HasSuffix(from, "-web"))
	})
	for _, vm := range []string{"owner-db", "participant-db"} {
		s.shows(vmNamespace, s.nics[vm].Attachment.InstanceID, "vms/db-from-web")
	}
	for account, calls := range s.refused() {
		t.Errorf("the cloud refused to %s: %s", account, calls)
	}

	must(t, s.c.client.Delete(t.Context(), &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: "owner"}}))
	must(t, s.c.client.Delete(t.Context(), &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "owner"}}))
	s.mean("the participant's database from its own web server", func(from, to string, port int) bool {
		return to == "participant-db" && (port != 5432 || from != "participant-web")
	})
	s.waitVMs(2)
	s.shows(vmNamespace, s.nics["participant-db"].Attachment.InstanceID, "vms/db-from-web")
	must(t, s.c.client.Delete(t.Context(), &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "participant"}}))
	s.mustBeReleased()
}

// waitVMs waits until there are n VirtualMachines.
func (s *shared) waitVMs(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d VMs", n), func(ctx context.Context) (bool, string) {
		var list cloudv1.VirtualMachineList
		err := s.c.client.List(ctx, &list)
		return err == nil && len(list.Items) == n, fmt.Sprint(len(list.Items), err)
	})
}

// refused are the calls that the cloud refused, by account.
func (s *shared) refused() map[string]string {
	out := map[string]string{}
	for _, c := range s.server.Journal().Calls(0) {
		if c.Code != "" {
			out[c.Account] += " " + c.Action + " " + c.Code + " " + c.Message
		}
	}
	return out
}

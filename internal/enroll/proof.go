package enroll

import (
	"context"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/enroll/identity"
)

// proof is what a host has shown: which ExternalNode it says to be, and whether that is so.
type proof struct {
	kind string
	host credential.Host
	// holds fails unless it proves this for the ExternalNode as it is now. absent is the error if
	// there is none.
	holds  func(client.Object) error
	absent error
}

// byToken is the proof of a host or member by a token of an ExternalNode or a Cluster.
func (d *Desk) byToken(ctx context.Context, asked credential.Asked, _ netip.Addr, now time.Time) (proof, error) {
	h := credential.Cluster(asked.Cluster)
	if asked.Cluster == "" {
		var err error
		if h, err = credential.ParseHost(asked.Host); err != nil {
			return proof{}, apierrors.NewBadRequest(err.Error())
		}
	} else if asked.Host != "" || len(validation.IsDNS1123Label(asked.Cluster)) > 0 {
		return proof{}, apierrors.NewBadRequest("want the name of a host, or that of a cluster")
	}
	if err := d.known(ctx, h, objectOf(h), asked.Secret, now); err != nil {
		return proof{}, err
	}
	return proof{"token", h, func(o client.Object) error { return refused(invited(o, asked.Secret, now)) }, refused(errNotInvited)}, nil
}

// known fails if somebody shows too often what the cache does not know as a token of the object. It
// may have been made a moment ago, or it is no one's. Only so many may make us find out.
func (d *Desk) known(ctx context.Context, key credential.Host, into client.Object, secret string, now time.Time) error {
	err := d.o.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, into)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if (err != nil || invited(into, secret, now) != nil) && !d.unknownCallers.Allow() {
		return apierrors.NewTooManyRequests("too many tokens that are not valid; try again", 1)
	}
	return nil
}

// refused makes an error one of those that tell a host that what it shows does not count.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// notYet is the answer to a machine that may be known in a moment, when the account is read again.
func notYet(format string, args ...any) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf(format, args...))
}

// bySignature is the proof of a virtual machine by a token of its account and a document about it
// that the cloud has signed.
func (d *Desk) bySignature(ctx context.Context, asked credential.Asked, from netip.Addr, now time.Time) (proof, error) {
	key, err := credential.ParseHost(asked.Account)
	if err != nil || asked.Signed == nil {
		return proof{}, apierrors.NewBadRequest("want the account as NAMESPACE/NAME, and what the cloud has signed")
	}
	var account cloudv1.CloudProviderAccount
	if err := d.known(ctx, key, &account, asked.Secret, now); err != nil {
		return proof{}, err
	}
	if err := d.o.Live.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, &account); apierrors.IsNotFound(err) {
		return proof{}, refused(errNotInvited)
	} else if err != nil {
		return proof{}, err
	}
	if err := invited(&account, asked.Secret, now); err != nil {
		return proof{}, refused(err)
	}
	if !d.signed.Allow() {
		return proof{}, apierrors.NewTooManyRequests("too many hosts enroll at once; try again", 1)
	}
	if account.Status.CloudAccountID == "" {
		return proof{}, notYet("the account %s has not been read yet", key)
	}
	reported, err := believed(&account, asked, now)
	if apierrors.IsServiceUnavailable(err) {
		return proof{}, err
	} else if err != nil {
		return proof{}, refused(err)
	}
	vm, err := d.machine(ctx, &account, reported)
	if err != nil {
		return proof{}, err
	}
	if err := errors.Join(young(&account, vm, reported, now), asks(&account, vm, reported, from)); err != nil {
		return proof{}, refused(err)
	}
	h := credential.Host{Namespace: vm.Namespace, Name: cloudv1.EntityNamePrefix + vm.Name}
	return proof{"signature", h, func(node client.Object) error { return refused(unclaimed(node, now)) },
		notYet("there is no ExternalNode %s yet", h)}, nil
}

// reported is what a cloud has signed about a virtual machine: which it is, and perhaps where and
// since when.
type reported struct {
	is     func(*cloudv1.VirtualMachine) bool
	name   string
	region string
	// address is one of its own; launched is when it was started last.
	address  netip.Addr
	launched time.Time
}

// believed returns what the cloud has signed about a machine, if that is of the account.
func believed(account *cloudv1.CloudProviderAccount, asked credential.Asked, now time.Time) (reported, error) {
	terms := account.Spec.HostIdentity
	if terms == nil {
		return reported{}, errors.New("the account takes no identities: it has no spec.hostIdentity")
	}
	certificates, err := identity.ParseCertificates(terms.Certificates)
	if err != nil {
		return reported{}, fmt.Errorf("spec.hostIdentity.certificates of the account: %w", err)
	}
	switch {
	case account.Spec.AWSConfig != nil:
		return byAWS(account.Status.CloudAccountID, *asked.Signed, certificates, now)
	case account.Spec.AzureConfig != nil:
		return byAzure(account, asked, certificates, now)
	}
	return reported{}, errors.New("the account takes no identities: it is of no cloud with which this can be done")
}

var errElsewhere = errors.New("the virtual machine belongs to another account of the cloud")

func byAWS(id string, signed identity.Proof, certificates []*x509.Certificate, now time.Time) (reported, error) {
	i, err := identity.AWS(signed, certificates, now)
	if err != nil {
		return reported{}, err
	}
	if i.Account != id {
		return reported{}, errElsewhere
	}
	is := func(vm *cloudv1.VirtualMachine) bool { return vm.Status.CloudId == i.ID }
	return reported{is, i.ID, i.Region, i.Address, i.Launched}, nil
}

// attestedFor is how long what Azure has attested counts. Azure itself gives it six hours, and may
// tell for a while what it has told before.
const attestedFor = 15 * time.Minute

func byAzure(account *cloudv1.CloudProviderAccount, asked credential.Asked, authorities []*x509.Certificate, now time.Time) (reported, error) {
	a, err := identity.Azure(asked.Signed.Attested, metadataName(account.Spec.AzureConfig.Cloud), authorities, now)
	if err != nil {
		return reported{}, err
	}
	age := now.Sub(a.Created)
	switch {
	case !strings.EqualFold(a.Subscription, account.Status.CloudAccountID):
		return reported{}, errElsewhere
	case age > attestedFor || age < -clockSlack || !now.Before(a.Expires):
		return reported{}, fmt.Errorf("what Azure attests is from %s until %s, and counts for %s", a.Created.UTC().Format(time.RFC3339), a.Expires.UTC().Format(time.RFC3339), attestedFor)
	case subtle.ConstantTimeCompare([]byte(a.Nonce), []byte(identity.Nonce(asked.Account, asked.Secret, asked.Request))) != 1:
		// Azure may repeat what it has told another process in the machine.
		return reported{}, notYet("what Azure attests was asked for with another nonce than that of this request")
	}
	is := func(vm *cloudv1.VirtualMachine) bool { return strings.EqualFold(vm.Status.CloudUid, a.VM) }
	return reported{is: is, name: a.VM}, nil
}

// metadataName is the name that the metadata service of an Azure cloud has in its certificates.
func metadataName(c *cloudv1.AzureCloud) string {
	if c != nil {
		if at, err := url.Parse(c.ResourceManager); err == nil {
			switch host := at.Hostname(); {
			case strings.HasSuffix(host, ".usgovcloudapi.net"):
				return "metadata.azure.us"
			case strings.HasSuffix(host, ".chinacloudapi.cn"):
				return "metadata.azure.cn"
			}
		}
	}
	return "metadata.azure.com"
}

// young fails unless a machine was launched as short a time ago as the account says. Azure does not
// sign when that was: there it is when the machine was made, as the inventory has it.
func young(account *cloudv1.CloudProviderAccount, vm *cloudv1.VirtualMachine, t reported, now time.Time) error {
	launched, seconds := t.launched, cloudv1.DefaultLaunchedWithinSeconds
	if s := account.Spec.HostIdentity.LaunchedWithinSeconds; s != nil {
		seconds = *s
	}
	if launched.IsZero() && vm.Status.Created != nil {
		launched = vm.Status.Created.Time
	}
	if launched.IsZero() {
		return fmt.Errorf("the cloud does not say when the virtual machine %s was made; it can enroll by a token of its own", t.name)
	}
	if age := now.Sub(launched); age > time.Duration(seconds)*time.Second || age < -clockSlack {
		return fmt.Errorf("the virtual machine was launched at %s; it can enroll by its identity within %s of that, and by a token of its own always",
			launched.UTC().Format(time.RFC3339), time.Duration(seconds)*time.Second)
	}
	return nil
}

// machine finds the one object of a virtual machine that is handed to the agent in it, by a
// namespace that has a say in that.
func (d *Desk) machine(ctx context.Context, account *cloudv1.CloudProviderAccount, t reported) (*cloudv1.VirtualMachine, error) {
	if d.o.Machines == nil {
		return nil, refused(errors.New("this server knows no virtual machines"))
	}
	all, err := d.o.Machines(ctx, types.NamespacedName{Namespace: account.Namespace, Name: account.Name})
	if err != nil {
		return nil, err
	}
	var found []*cloudv1.VirtualMachine
	for k := range all {
		vm := &all[k]
		note := vm.Namespace == account.Namespace || slices.Contains(account.Spec.ReleaseNamespaces, vm.Namespace)
		if t.is(vm) && vm.Status.Agented && note {
			found = append(found, vm)
		}
	}
	switch {
	case len(found) == 0:
		return nil, notYet("no selector with a say in it hands the virtual machine %s to its agent, as far as is known", t.name)
	case len(found) > 1:
		return nil, refused(fmt.Errorf("selectors of several namespaces hand the virtual machine %s to its agent", t.name))
	case t.region != "" && found[0].Status.Region != t.region:
		return nil, refused(fmt.Errorf("the virtual machine %s is in another region", t.name))
	case found[0].Status.State != cloudv1.VMStateRunning:
		return nil, notYet("the virtual machine %s does not run, as far as is known: %s", t.name, found[0].Status.State)
	}
	return found[0], nil
}

// asks fails unless a request comes from the machine that it is about, as far as addresses tell.
func asks(account *cloudv1.CloudProviderAccount, vm *cloudv1.VirtualMachine, t reported, from netip.Addr) error {
	has := func(a netip.Addr) bool {
		for _, n := range vm.Status.NetworkInterfaces {
			for _, ip := range n.IPs {
				if own, err := netip.ParseAddr(ip.Address); err == nil && own.Unmap() == a {
					return true
				}
			}
		}
		return false
	}
	switch {
	case t.address.IsValid() && !has(t.address):
		return fmt.Errorf("the virtual machine %s does not have the address that is signed", t.name)
	case !account.Spec.HostIdentity.AnySource && !has(from):
		return fmt.Errorf("%s is no address of the virtual machine %s; spec.hostIdentity.anySource of the account allows that", from, t.name)
	}
	return nil
}

// unclaimed fails if a host has enrolled as this ExternalNode, and its certificates can still
// count.
func unclaimed(node client.Object, now time.Time) error {
	if !node.GetDeletionTimestamp().IsZero() {
		return errors.New("the ExternalNode is being deleted")
	}
	if node.GetAnnotations()[AnnotationIdentity] == "" {
		return nil
	}
	if end, err := time.Parse(time.RFC3339, node.GetAnnotations()[AnnotationEnds]); err == nil && now.After(end.Add(clockSlack)) {
		return nil
	}
	return fmt.Errorf("a host has enrolled as ExternalNode %s/%s already; nephele enroll --revoke ends that", node.GetNamespace(), node.GetName())
}

package enroll

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/enroll/identity"
	"github.com/nephele-io/nephele/internal/sim/imds"
)

// region signs in all tests, because making its key takes time.
var region = sync.OnceValues(func() (*imds.Signer, error) { return imds.NewSigner(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) })

// fleet is an office for an account with one machine that is handed to its agent.
type fleet struct {
	*office
	signer  *imds.Signer
	account *cloudv1.CloudProviderAccount
	vm      cloudv1.VirtualMachine
	doc     imds.Document
	secret  string
}

var (
	prod      = credential.Host{Namespace: "cloud", Name: "prod"}
	machine   = credential.Host{Namespace: "cloud", Name: "virtualmachine-i-1"}
	machineIP = netip.MustParseAddr("10.1.0.7")
)

func newFleet(t *testing.T) *fleet {
	f := &fleet{office: newOffice(t)}
	var err error
	if f.signer, err = region(); err != nil {
		t.Fatal(err)
	}
	f.account = &cloudv1.CloudProviderAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name, UID: "9"},
		Spec:       cloudv1.CloudProviderAccountSpec{AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{}, HostIdentity: &cloudv1.HostIdentity{Certificates: string(f.signer.CertificatePEM())}},
		Status:     cloudv1.CloudProviderAccountStatus{CloudAccountID: "111122223333"},
	}
	f.create(f.account)
	f.host(machine, "3")
	f.vm = cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "i-1"}, Status: cloudv1.VirtualMachineStatus{
		CloudId: "i-1", Region: "us-west-2", State: cloudv1.VMStateRunning, Agented: true,
		NetworkInterfaces: []cloudv1.AttachedInterface{{IPs: []cloudv1.IPAddress{{Address: machineIP.String()}, {Address: "192.0.2.7"}}}},
	}}
	f.machines(f.vm)
	f.doc = imds.Document{AccountID: "111122223333", Region: "us-west-2", InstanceID: "i-1", PrivateIP: machineIP.String(), PendingTime: f.clock.Now().Add(-time.Minute)}
	i, _, err := InviteAll(t.Context(), f.client, prod, time.Hour, f.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	if i, err = credential.ParseInvitation(i.String() + "\n"); err != nil || i.Account != prod || i.Host != (credential.Host{}) {
		t.Fatal(i, err)
	}
	f.secret = i.Secret
	return f
}

// machines are what is known of the account's.
func (f *fleet) machines(vms ...cloudv1.VirtualMachine) {
	f.desk.o.Machines = func(_ context.Context, account types.NamespacedName) ([]cloudv1.VirtualMachine, error) {
		if account.String() != prod.String() {
			return nil, nil
		}
		return vms, nil
	}
}

// sign is what the metadata service tells.
func (f *fleet) sign(d imds.Document) *identity.Proof {
	f.Helper()
	raw, err := json.Marshal(d)
	if err != nil {
		f.Fatal(err)
	}
	text, err := f.signer.PKCS7(raw)
	if err != nil {
		f.Fatal(err)
	}
	return &identity.Proof{PKCS7: text}
}

// asked is a good request.
func (f *fleet) asked() credential.Asked {
	return credential.Asked{Account: prod.String(), Secret: f.secret, Signed: f.sign(f.doc), Request: string(f.key().Request)}
}

func (f *fleet) enroll() error {
	f.Helper()
	p, err := f.desk.Redeem(context.Background(), f.asked(), machineIP)
	if err == nil {
		c, ok := credential.ParseCertificate([]byte(p.Certificate))
		if !ok || c.Host != machine {
			f.Errorf("the certificate is of %s", c.Host)
		}
	}
	return err
}

func (f *fleet) edit(change func(a *cloudv1.CloudProviderAccount)) {
	f.Helper()
	var a cloudv1.CloudProviderAccount
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: prod.Name}, &a); err != nil {
		f.Fatal(err)
	}
	change(&a)
	if err := f.client.Update(f.Context(), &a); err != nil {
		f.Fatal(err)
	}
}

// TestSignaturesCountOnce lets a machine enroll by what its cloud has signed, once: again only
// after the owner has revoked it, or when its last certificate has ended.
func TestSignaturesCountOnce(t *testing.T) {
	f := newFleet(t)
	if err := f.enroll(); err != nil {
		t.Fatal(err)
	}
	again := func(want string) {
		t.Helper()
		if err := f.enroll(); want == "" && err != nil || want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want)) {
			t.Fatalf("%v, want %q", err, want)
		}
	}
	again("enrolled as ExternalNode cloud/virtualmachine-i-1 already")
	if err := Revoke(t.Context(), f.client, machine); err != nil {
		t.Fatal(err)
	}
	again("")

	// As long as it renews, nobody else comes in.
	id := credential.Identity{Host: machine, UID: "3", Enrolment: f.node(machine).Annotations[AnnotationIdentity]}
	f.clock.Step(CertificateLife - time.Hour)
	if _, err := f.desk.Renew(t.Context(), id, f.key().Request); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(2 * time.Hour)
	f.doc.PendingTime = f.clock.Now()
	if i, _, err := InviteAll(t.Context(), f.client, prod, LongestInvitation, f.clock.Now()); err != nil {
		t.Fatal(err)
	} else {
		f.secret = i.Secret
	}
	again("already")
	f.clock.Step(CertificateLife - 2*time.Hour - time.Minute)
	f.doc.PendingTime = f.clock.Now()
	again("already")
	f.clock.Step(2*time.Hour + clockSlack)
	f.doc.PendingTime = f.clock.Now()
	i, _, err := InviteAll(t.Context(), f.client, prod, time.Hour, f.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	f.secret = i.Secret
	again("")
	if _, err := f.desk.Renew(t.Context(), id, f.key().Request); !errors.Is(err, ErrRefused) {
		t.Errorf("the former certificate is renewed: %v", err)
	}
}

// TestSignaturesCountOnceAtTheSameTime lets many ask with the same document.
func TestSignaturesCountOnceAtTheSameTime(t *testing.T) {
	f := newFleet(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for range 8 {
		asked := f.asked()
		wg.Go(func() {
			_, err := f.desk.Redeem(context.Background(), asked, machineIP)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				in++
			} else if !errors.Is(err, ErrRefused) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if in != 1 {
		t.Errorf("%d have enrolled as one machine", in)
	}
}

// TestSignaturesRefused shows the server everything that a thief or forger might.
func TestSignaturesRefused(t *testing.T) {
	other, err := imds.NewSigner(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(imds.Document{AccountID: "111122223333", Region: "us-west-2", InstanceID: "i-1", PendingTime: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	byOther, err := other.PKCS7(raw)
	if err != nil {
		t.Fatal(err)
	}
	stranger := netip.MustParseAddr("10.9.9.9")
	for what, c := range map[string]struct {
		change func(f *fleet, a *credential.Asked)
		from   netip.Addr
		want   string
		later  bool
	}{
		"no token":                {change: func(_ *fleet, a *credential.Asked) { a.Secret = "" }, want: "token is not valid"},
		"another account's token": {change: func(_ *fleet, a *credential.Asked) { a.Account = "cloud/test" }, want: "token is not valid"},
		"a host's token":          {change: func(f *fleet, a *credential.Asked) { a.Secret = f.invite(web).Secret }, want: "token is not valid"},
		"a token that has ended":  {change: func(f *fleet, _ *credential.Asked) { f.clock.Step(2 * time.Hour) }, want: "the token ended"},
		"nothing signed":          {change: func(_ *fleet, a *credential.Asked) { a.Signed = &identity.Proof{} }, want: "no certificate of the account has signed"},
		"garbage":                 {change: func(_ *fleet, a *credential.Asked) { a.Signed.PKCS7 = "MIAGCSqGSIb3DQEHAqCA" }, want: "no certificate of the account has signed"},
		"another signer":          {change: func(_ *fleet, a *credential.Asked) { a.Signed.PKCS7 = byOther }, want: "no certificate of the account has signed"},
		"a changed document": {change: func(_ *fleet, a *credential.Asked) {
			a.Signed = &identity.Proof{Document: string(raw), Signature: a.Signed.PKCS7}
		}, want: "no certificate of the account has signed"},
		"no key":               {change: func(_ *fleet, a *credential.Asked) { a.Request = "" }, want: "certificate request"},
		"another account's VM": {change: func(f *fleet, a *credential.Asked) { f.doc.AccountID = "444455556666"; a.Signed = f.sign(f.doc) }, want: "another account"},
		"another region":       {change: func(f *fleet, a *credential.Asked) { f.doc.Region = "us-east-1"; a.Signed = f.sign(f.doc) }, want: "another region"},
		"another address":      {change: func(f *fleet, a *credential.Asked) { f.doc.PrivateIP = "10.1.0.8"; a.Signed = f.sign(f.doc) }, want: "address that is signed"},
		"an old launch": {change: func(f *fleet, a *credential.Asked) {
			f.doc.PendingTime = f.clock.Now().Add(-61 * time.Minute)
			a.Signed = f.sign(f.doc)
		}, want: "was launched at"},
		"a launch in the future": {change: func(f *fleet, a *credential.Asked) {
			f.doc.PendingTime = f.clock.Now().Add(time.Hour)
			a.Signed = f.sign(f.doc)
		}, want: "was launched at"},
		"a document without a VM": {change: func(f *fleet, a *credential.Asked) { f.doc.InstanceID = ""; a.Signed = f.sign(f.doc) }, want: "does not say"},
		"from elsewhere":          {from: stranger, want: "10.9.9.9 is no address of the virtual machine"},
		"a VM that is not known":  {change: func(f *fleet, _ *credential.Asked) { f.machines() }, want: "as far as is known", later: true},
		"a VM that is not handed": {change: func(f *fleet, _ *credential.Asked) { f.vm.Status.Agented = false; f.machines(f.vm) }, want: "as far as is known", later: true},
		"a namespace without say": {change: func(f *fleet, _ *credential.Asked) { f.vm.Namespace = "vms"; f.machines(f.vm) }, want: "with a say", later: true},
		"a VM that is terminated": {change: func(f *fleet, _ *credential.Asked) { f.vm.Status.State = cloudv1.VMStateShuttingDown; f.machines(f.vm) }, want: "does not run", later: true},
		"a VM of two namespaces":  {change: func(f *fleet, _ *credential.Asked) { f.machines(f.vm, f.vm) }, want: "several namespaces"},
		"no ExternalNode":         {change: func(f *fleet, _ *credential.Asked) { must(f.T, f.client.Delete(f.Context(), f.node(machine))) }, want: "no ExternalNode", later: true},
		"an account of no terms": {change: func(f *fleet, _ *credential.Asked) {
			f.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.HostIdentity = nil })
		}, want: "takes no identities"},
		"an account of no cloud": {change: func(f *fleet, _ *credential.Asked) {
			f.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.AWSConfig = nil })
		}, want: "takes no identities"},
		"an account never read": {change: func(f *fleet, _ *credential.Asked) {
			f.edit(func(a *cloudv1.CloudProviderAccount) { a.Status.CloudAccountID = "" })
		}, want: "has not been read yet", later: true},
		"certificates that are none": {change: func(f *fleet, _ *credential.Asked) {
			f.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.HostIdentity.Certificates += "junk" })
		}, want: "certificates in PEM"},
		"a certificate that has ended": {change: func(f *fleet, a *credential.Asked) {
			old, err := imds.NewSigner(f.clock.Now().AddDate(-200, 0, 0))
			must(f.T, err)
			f.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.HostIdentity.Certificates = string(old.CertificatePEM()) })
			f.signer = old
			a.Signed = f.sign(f.doc)
		}, want: "no certificate of the account has signed"},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFleet(t)
			a, from := f.asked(), machineIP
			if c.change != nil {
				c.change(f, &a)
			}
			if c.from.IsValid() {
				from = c.from
			}
			_, err := f.desk.Redeem(t.Context(), a, from)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if apierrors.IsServiceUnavailable(err) != c.later {
				t.Errorf("the host is told to ask again: %t; %v", apierrors.IsServiceUnavailable(err), err)
			}
			if f.lacks(machine) {
				return
			}
			if f.node(machine).Annotations[AnnotationIdentity] != "" {
				t.Error("somebody has enrolled")
			}
		})
	}
}

// lacks reports whether there is no such ExternalNode.
func (o *office) lacks(h credential.Host) bool {
	return apierrors.IsNotFound(o.client.Get(o.Context(), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, &v1alpha1.ExternalNode{}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTermsOfSignatures takes older machines and other sources where the account says so, and the
// form without PKCS #7.
func TestTermsOfSignatures(t *testing.T) {
	f := newFleet(t)
	day := int32(24 * 3600)
	f.edit(func(a *cloudv1.CloudProviderAccount) {
		a.Spec.HostIdentity.LaunchedWithinSeconds, a.Spec.HostIdentity.AnySource = &day, true
		a.Spec.HostIdentity.Certificates = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.desk.trust.all[0].cert.Raw})) + a.Spec.HostIdentity.Certificates
	})
	f.doc.PendingTime = f.clock.Now().Add(-23 * time.Hour)
	raw, err := json.Marshal(f.doc)
	must(t, err)
	signature, err := f.signer.Signature(raw)
	must(t, err)
	a := f.asked()
	a.Signed = &identity.Proof{Document: string(raw), Signature: signature}
	if _, err := f.desk.Redeem(t.Context(), a, netip.MustParseAddr("203.0.113.1")); err != nil {
		t.Fatal(err)
	}
}

// TestManySignatures bounds what holders of the token of an account make the server do.
func TestManySignatures(t *testing.T) {
	f := newFleet(t)
	a := f.asked()
	a.Signed = &identity.Proof{PKCS7: "AA=="}
	for range signaturesAtOnce * 2 {
		if _, err := f.desk.Redeem(t.Context(), a, machineIP); apierrors.IsTooManyRequests(err) {
			return
		}
	}
	t.Error("nobody is told to wait")
}

// TestInviteAll needs an account that says what is believed.
func TestInviteAll(t *testing.T) {
	f := newFleet(t)
	for want, whom := range map[string]credential.Host{"not found": {Namespace: "cloud", Name: "no"}, "spec.hostIdentity": {Namespace: "cloud", Name: "bare"}} {
		f.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: whom.Name}})
		if whom.Name == "bare" {
			f.create(&cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "bare"}})
		}
		if _, _, err := InviteAll(t.Context(), f.client, whom, time.Hour, f.clock.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestInvitedWhileOthersWrite: controllers write the status of an account or ExternalNode at any
// time, and that is no reason to refuse a token.
func TestInvitedWhileOthersWrite(t *testing.T) {
	f := newFleet(t)
	read := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if err := c.Get(ctx, key, o, opts...); err != nil {
			return err
		}
		written := o.DeepCopyObject().(client.Object)
		written.SetLabels(map[string]string{"written": "since"})
		return c.Update(ctx, written)
	}
	busy := interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{Get: read})
	if _, _, err := InviteAll(t.Context(), busy, prod, time.Hour, f.clock.Now()); err != nil {
		t.Error(err)
	}
	if _, _, err := Invite(t.Context(), busy, web, time.Hour, f.clock.Now()); err != nil {
		t.Error(err)
	}
	if err := disown(t.Context(), busy, web); err != nil {
		t.Error(err)
	}
	if left := f.node(web); left.Annotations[AnnotationToken] != "" || left.Labels["written"] == "" {
		t.Errorf("%v %v", left.Labels, left.Annotations)
	}
}

package enroll

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/enroll/identity"
	"github.com/nephele-io/nephele/internal/sim/imds"
)

// azure attests in all tests, because making its key takes time.
var azure = sync.OnceValues(func() (*imds.Attester, error) { return imds.NewAttester(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) })

const subscriptionID, vmID = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"

// azureFleet is a fleet in a subscription of Azure.
type azureFleet struct {
	*fleet
	attester *imds.Attester
	attested imds.Attested
}

func newAzureFleet(t *testing.T) *azureFleet {
	a, err := azure()
	must(t, err)
	f := &azureFleet{newFleet(t), a, imds.Attested{SubscriptionID: strings.ToUpper(subscriptionID), VMID: strings.ToUpper(vmID)}}
	f.edit(func(a *cloudv1.CloudProviderAccount) {
		a.Spec.AWSConfig, a.Spec.AzureConfig = nil, &cloudv1.CloudProviderAccountAzureConfig{}
		a.Spec.HostIdentity.Certificates, a.Status.CloudAccountID = string(f.attester.AuthorityPEM()), subscriptionID
	})
	f.vm.Status.CloudId, f.vm.Status.CloudUid = "/subscriptions/"+subscriptionID+"/resourcegroups/shop/providers/microsoft.compute/virtualmachines/web", vmID
	f.vm.Status.Region, f.vm.Status.Created = "westeurope", &metav1.Time{Time: f.clock.Now().Add(-time.Minute)}
	f.machines(f.vm)
	f.reinvite()
	return f
}

// reinvite makes a new token.
func (f *azureFleet) reinvite() {
	f.Helper()
	i, _, err := InviteAll(f.Context(), f.client, prod, time.Hour, f.clock.Now())
	must(f.T, err)
	read, err := credential.ParseInvitation(i.String())
	if err != nil || read != i || !i.Azure || !strings.HasPrefix(i.String(), "azure-account:cloud/prod:") {
		f.Fatal(read, err)
	}
	f.secret = i.Secret
}

// attest is what the metadata service tells a request.
func (f *azureFleet) attest(a *credential.Asked) {
	f.Helper()
	f.attested.Nonce = identity.Nonce(a.Account, a.Secret, a.Request)
	if f.attested.TimeStamp.CreatedOn == "" {
		f.attested.TimeStamp = imds.At(f.clock.Now())
	}
	text, err := f.attester.Sign(f.attested)
	must(f.T, err)
	a.Signed = &identity.Proof{Attested: text}
}

// request is a good one.
func (f *azureFleet) request() credential.Asked {
	f.Helper()
	a := credential.Asked{Account: prod.String(), Secret: f.secret, Request: string(f.key().Request)}
	f.attest(&a)
	return a
}

// TestAttestedOnce lets a machine of Azure enroll by what is attested about it, once.
func TestAttestedOnce(t *testing.T) {
	f := newAzureFleet(t)
	a := f.request()
	p, err := f.desk.Redeem(t.Context(), a, machineIP)
	must(t, err)
	if c, ok := credential.ParseCertificate([]byte(p.Certificate)); !ok || c.Host != machine {
		t.Errorf("the certificate is of %s", c.Host)
	}
	for what, again := range map[string]credential.Asked{"the same": a, "another": f.request()} {
		if _, err := f.desk.Redeem(t.Context(), again, machineIP); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "already") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAttestedOnceAtTheSameTime lets many ask at once.
func TestAttestedOnceAtTheSameTime(t *testing.T) {
	f := newAzureFleet(t)
	var wg sync.WaitGroup
	in := make(chan bool, 8)
	for range cap(in) {
		a := f.request()
		wg.Go(func() {
			_, err := f.desk.Redeem(context.Background(), a, machineIP)
			in <- err == nil
		})
	}
	wg.Wait()
	close(in)
	n := 0
	for ok := range in {
		if ok {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d have enrolled as one machine", n)
	}
}

// TestAttestedRefused shows the server everything that a thief or forger might.
func TestAttestedRefused(t *testing.T) {
	for what, c := range map[string]struct {
		// before changes what is attested, after the request.
		before func(f *azureFleet)
		after  func(f *azureFleet, a *credential.Asked)
		want   string
		later  bool
	}{
		"another subscription": {before: func(f *azureFleet) { f.attested.SubscriptionID = "cccccccc-0000-4000-8000-000000000003" }, want: "another account"},
		"another VM":           {before: func(f *azureFleet) { f.attested.VMID = "cccccccc-0000-4000-8000-000000000003" }, want: "as far as is known", later: true},
		"a VM without vmId":    {after: func(f *azureFleet, _ *credential.Asked) { f.vm.Status.CloudUid = ""; f.machines(f.vm) }, want: "as far as is known", later: true},
		"a VM not handed":      {after: func(f *azureFleet, _ *credential.Asked) { f.vm.Status.Agented = false; f.machines(f.vm) }, want: "as far as is known", later: true},
		"a VM that is gone":    {after: func(f *azureFleet, _ *credential.Asked) { f.machines() }, want: "as far as is known", later: true},
		"a VM that is stopped": {after: func(f *azureFleet, _ *credential.Asked) { f.vm.Status.State = cloudv1.VMStateStopped; f.machines(f.vm) }, want: "does not run", later: true},
		"an old VM": {after: func(f *azureFleet, _ *credential.Asked) {
			f.vm.Status.Created = &metav1.Time{Time: f.clock.Now().Add(-2 * time.Hour)}
			f.machines(f.vm)
		}, want: "was launched at"},
		"a VM of no time": {after: func(f *azureFleet, _ *credential.Asked) { f.vm.Status.Created = nil; f.machines(f.vm) }, want: "does not say when"},
		"from before":     {before: func(f *azureFleet) { f.attested.TimeStamp = imds.At(f.clock.Now().Add(-attestedFor - time.Minute)) }, want: "counts for"},
		"from later":      {before: func(f *azureFleet) { f.attested.TimeStamp = imds.At(f.clock.Now().Add(time.Hour)) }, want: "counts for"},
		"ended": {before: func(f *azureFleet) {
			f.attested.TimeStamp = imds.AttestedTime{CreatedOn: imds.At(f.clock.Now()).CreatedOn, ExpiresOn: imds.At(f.clock.Now()).CreatedOn}
		}, want: "counts for"},
		"another's key": {after: func(f *azureFleet, a *credential.Asked) { a.Request = string(f.key().Request) }, want: "another nonce", later: true},
		"another token": {after: func(f *azureFleet, a *credential.Asked) { f.reinvite(); a.Secret = f.secret }, want: "another nonce", later: true},
		"no nonce": {after: func(f *azureFleet, a *credential.Asked) {
			f.attested.Nonce = ""
			text, err := f.attester.Sign(f.attested)
			must(f.T, err)
			a.Signed.Attested = text
		}, want: "another nonce", later: true},
		"another signer": {before: func(f *azureFleet) {
			other, err := imds.NewAttester(f.clock.Now())
			must(f.T, err)
			f.attester = other
		}, want: "no certificate of the account has signed"},
		"a signer of another name": {before: func(f *azureFleet) {
			other, err := imds.NewAttester(f.clock.Now(), func(c *x509.Certificate) { c.DNSNames = []string{"metadata.azure.cn"} })
			must(f.T, err)
			f.attester = other
			f.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.HostIdentity.Certificates = string(other.AuthorityPEM()) })
		}, want: "not for metadata.azure.com"},
		"what AWS signs":     {after: func(f *azureFleet, a *credential.Asked) { a.Signed = f.sign(f.doc) }, want: "no certificate of the account has signed"},
		"oversize":           {after: func(_ *azureFleet, a *credential.Asked) { a.Signed.Attested += strings.Repeat("A", 20000) }, want: "at most"},
		"a token that ended": {after: func(f *azureFleet, _ *credential.Asked) { f.clock.Step(2 * time.Hour) }, want: "the token ended"},
		"to an account of AWS": {after: func(f *azureFleet, _ *credential.Asked) {
			f.edit(func(a *cloudv1.CloudProviderAccount) {
				a.Spec.AWSConfig, a.Spec.AzureConfig = &cloudv1.CloudProviderAccountAWSConfig{}, nil
			})
		}, want: "no certificate of the account has signed"},
	} {
		t.Run(what, func(t *testing.T) {
			f := newAzureFleet(t)
			if c.before != nil {
				c.before(f)
			}
			a := f.request()
			if c.after != nil {
				c.after(f, &a)
			}
			_, err := f.desk.Redeem(t.Context(), a, machineIP)
			if err == nil || !strings.Contains(err.Error(), c.want) || apierrors.IsServiceUnavailable(err) != c.later {
				t.Errorf("%v, want %q, later %t", err, c.want, c.later)
			}
			if f.node(machine).Annotations[AnnotationIdentity] != "" {
				t.Error("somebody has enrolled")
			}
		})
	}
}

// TestMetadataNames: the metadata has the names that the clouds use.
func TestMetadataNames(t *testing.T) {
	for at, want := range map[string]string{
		"https://management.azure.com": "metadata.azure.com", "https://management.usgovcloudapi.net": "metadata.azure.us",
		"https://management.chinacloudapi.cn": "metadata.azure.cn", "https://chinacloudapi.cn.example.org": "metadata.azure.com",
	} {
		if got := metadataName(&cloudv1.AzureCloud{ResourceManager: at}); got != want {
			t.Errorf("%s: %s", at, got)
		}
	}
	if got := metadataName(nil); got != "metadata.azure.com" {
		t.Error(got)
	}
}

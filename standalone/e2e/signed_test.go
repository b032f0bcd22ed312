package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestEnrollBySignature starts the agent of a VM with nothing but the token of its account and what
// the VM's metadata service signs. A copy of both does not help a second host.
func TestEnrollBySignature(t *testing.T) {
	t.Parallel()
	h := newHanded(t)
	account := &cloudv1.CloudProviderAccount{}
	account.Namespace, account.Name = "cloud", "real"
	certificate, err := h.server.MetadataCertificate()
	must(t, err)
	edit(t, h.client, account, func() {
		account.Spec.ReleaseNamespaces = []string{vmNamespace}
		account.Spec.HostIdentity = &cloudv1.HostIdentity{Certificates: string(certificate)}
	})
	metadata, err := h.server.Metadata(sharingAccount, sharedRegion, h.vm.Name)
	must(t, err)
	h.serveMetadata(metadata)

	out, err := h.nephele("enroll-token", "--account", "cloud/real", "--for", "10m")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	token := lines[len(lines)-1]
	if err != nil || !strings.HasPrefix(token, "account:cloud/real:") {
		t.Fatal(err, out)
	}
	enroll := h.enroller(token)
	// Until the account has been read, that is what is told.
	eventuallyTold(t, "nobody hands the VM to its agent", func(context.Context) (bool, string) {
		_, out, err := enroll(time.Millisecond)
		if err == nil {
			t.Fatal("a VM that nobody hands to its agent has enrolled", out)
		}
		return strings.Contains(out, "hands the virtual machine "+h.vm.Name), out
	})
	selector := &cloudv1.CloudEntitySelector{}
	selector.Namespace, selector.Name = vmNamespace, "all"
	edit(t, h.client, selector, func() { selector.Spec.VMSelector[0].Agented = true })
	// The proxy through which the host reaches the server is on another address.
	if _, out, err := enroll(time.Minute); err == nil || !strings.Contains(out, "127.0.0.1 is no address of the virtual machine") {
		t.Fatal("from elsewhere", err, out)
	}
	edit(t, h.client, account, func() { account.Spec.HostIdentity.AnySource = true })
	node := vmNamespace + "/" + cloudv1.EntityNamePrefix + h.vm.Name
	kubeconfig, out, err := enroll(time.Minute)
	if err != nil || !strings.Contains(out, "This host is "+node) {
		t.Fatal(err, out)
	}
	if _, out, err := enroll(time.Minute); err == nil || !strings.Contains(out, "already") {
		t.Fatal("a second time", err, out)
	}

	stop := h.startAgent(h.configureAlone(kubeconfig))
	h.stands("its agent has come", false, true, "True", "former groups", false)
	stop(syscall.SIGTERM)
}

// serveMetadata makes the peer of the host its metadata service.
func (a *agented) serveMetadata(metadata http.Handler) {
	a.t.Helper()
	service := netip.MustParseAddrPort("169.254.169.254:80")
	nfttest.Connect(a.t, a.host, a.peer, []netip.Prefix{netip.MustParsePrefix("169.254.169.1/24")}, []netip.Prefix{netip.PrefixFrom(service.Addr(), 24)})
	var listener net.Listener
	must(a.t, a.peer.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(service))
		return err
	}))
	server := &http.Server{Handler: metadata, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	a.t.Cleanup(func() { _ = server.Close(); <-served })
}

// enroller enrolls the host with a token, as long as is said.
func (a *agented) enroller(token string) func(wait time.Duration) (kubeconfig, out string, err error) {
	to := "https://" + a.proxyTo(a.policyServer())
	return func(wait time.Duration) (kubeconfig, out string, err error) {
		kubeconfig = filepath.Join(a.t.TempDir(), "kubeconfig")
		var said bytes.Buffer
		cmd := exec.Command(binary, "agent", "enroll", "--server", to, "--output", kubeconfig, "--wait", wait.String(), "-")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(token+"\n"), &said, &said
		err = a.host.Do(cmd.Run)
		return kubeconfig, said.String(), err
	}
}

// configureAlone writes the file that configures an agent. It does not say which host it is: the
// certificate does.
func (a *agented) configureAlone(kubeconfig string) string {
	a.t.Helper()
	config := filepath.Join(a.files, "agent.yaml")
	text := fmt.Sprintf("kubeconfig: %s\nstateDir: %s\nlogFile: %s\n", kubeconfig, filepath.Join(a.files, "state"), filepath.Join(a.files, "policies.log"))
	must(a.t, os.WriteFile(config, []byte(text), 0o600))
	return config
}

// azureHanded is what the owner of a subscription has whose VM is to enroll.
const azureHanded = `
apiVersion: v1
kind: Namespace
metadata: {name: ns-a}
---
` + azureOwner

// TestEnrollByAttestation starts the agent of a VM of Azure with nothing but the token of its
// account and what the VM's metadata service attests.
func TestEnrollByAttestation(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestAttestedOnce and TestAttestedRefused (internal/enroll); TestEnrollBySignature takes the same way with AWS")
	b := build.New(azureTenantID, azureSubscriptionID, azureRegion)
	raw, err := os.ReadFile("../../config/azure/role.json")
	must(t, err)
	role, err := simazure.ParseRole(raw)
	must(t, err)
	id := b.Principal("nephele", "secret", simazure.Assignment{Scope: "/subscriptions/" + azureSubscriptionID + "/resourceGroups/shop", Role: role})
	vnet := b.Network("shop", "shop", []string{"10.1.0.0/16"}, []string{"all", "10.1.1.0/24"})
	own := netip.MustParseAddr("10.1.1.11")
	machine, _ := b.Machine("shop", "db", vnet+"/subnets/all", own.String(), b.SecurityGroup("shop", "nsg-own"))
	var vm, other *simazure.Resource
	stranger, _ := b.Machine("shop", "web", vnet+"/subnets/all", own.Next().Next().String(), "")
	for k := range b.State.Resources {
		switch r := &b.State.Resources[k]; r.ID {
		case machine:
			vm = r
		case stranger:
			other = r
		}
	}
	made := time.Now().Add(-2 * time.Hour)
	vm.Tags, vm.Properties["timeCreated"] = map[string]string{"role": "db"}, made.UTC().Format(time.RFC3339Nano)
	other.Tags = map[string]string{"role": "web"}
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: aws.State{Azure: &b.State}})
	must(t, err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	at, err := url.Parse(server.AzureURL())
	must(t, err)
	a := newAgented(t, own, own.Next(), "--allowed-endpoints="+at.Host)
	words := strings.NewReplacer("{SUBSCRIPTION}", azureSubscriptionID, "{TENANT}", azureTenantID, "{CLIENT}", id, "{VNET}", vnet,
		"{URL}", server.AzureURL(), "{CA}", fmt.Sprintf("%q", server.AzureCertificate()))
	for _, doc := range strings.Split(words.Replace(azureHanded), "\n---\n") {
		o := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(doc), &o.Object))
		a.apply(o)
	}
	account := &cloudv1.CloudProviderAccount{}
	account.Namespace, account.Name = "ns-a", "azure"
	authority, err := server.AzureMetadataAuthority()
	must(t, err)
	edit(t, a.client, account, func() {
		account.Spec.HostIdentity = &cloudv1.HostIdentity{Certificates: string(authority), AnySource: true}
	})
	metadata, err := server.AzureMetadata(machine)
	must(t, err)
	a.serveMetadata(metadata)

	out, err := a.nephele("enroll-token", "--account", "ns-a/azure", "--for", "10m")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	token := lines[len(lines)-1]
	if err != nil || !strings.HasPrefix(token, "azure-account:ns-a/azure:") {
		t.Fatal(err, out)
	}
	enroll := a.enroller(token)
	vmID := build.GUIDOf("vm db")
	eventuallyTold(t, "nobody hands the VM to its agent", func(context.Context) (bool, string) {
		_, out, err := enroll(time.Millisecond)
		if err == nil {
			t.Fatal("a VM that nobody hands to its agent has enrolled", out)
		}
		return strings.Contains(out, "hands the virtual machine "+vmID), out
	})
	selector := &cloudv1.CloudEntitySelector{}
	selector.Namespace, selector.Name = "ns-a", "azure"
	edit(t, a.client, selector, func() { selector.Spec.VMSelector[0].Agented = true })
	if _, out, err := enroll(time.Minute); err == nil || !strings.Contains(out, "was launched at "+made.UTC().Format(time.RFC3339)) {
		t.Fatal("an old VM", err, out)
	}
	edit(t, a.client, account, func() { account.Spec.HostIdentity.LaunchedWithinSeconds = ptr(int32(24 * 3600)) })
	kubeconfig, out, err := enroll(time.Minute)
	if err != nil || !strings.Contains(out, "This host is ns-a/"+cloudv1.EntityNamePrefix) {
		t.Fatal(err, out)
	}
	if _, out, err := enroll(time.Minute); err == nil || !strings.Contains(out, "already") {
		t.Fatal("a second time", err, out)
	}
	known := &cloudv1.VirtualMachineList{}
	must(t, a.client.List(t.Context(), known))
	i := slices.IndexFunc(known.Items, func(m cloudv1.VirtualMachine) bool { return m.Status.CloudUid == vmID })
	if i < 0 || !known.Items[i].Status.Created.Time.Equal(made.Truncate(time.Second)) {
		t.Errorf("%+v", known.Items)
	}

	// The policy of the owner lets web in to port 5432, and nothing else.
	stop := a.startAgent(a.configureAlone(kubeconfig))
	a.sees("the policy is enforced", false, false)
	stop(syscall.SIGTERM)
}

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// TestEnrollBySignature starts the agent of a VM with nothing but the token of its account and what
// the VM's metadata service signs. A copy of both does not help a second host.
func TestEnrollBySignature(t *testing.T) {
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
	service := netip.MustParseAddrPort("169.254.169.254:80")
	nfttest.Connect(t, h.host, h.peer, []netip.Prefix{netip.MustParsePrefix("169.254.169.1/24")}, []netip.Prefix{netip.PrefixFrom(service.Addr(), 24)})
	var listener net.Listener
	must(t, h.peer.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(service))
		return err
	}))
	server := &http.Server{Handler: metadata, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-served })

	out, err := h.nephele("enroll-token", "--account", "cloud/real", "--for", "10m")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	token := lines[len(lines)-1]
	if err != nil || !strings.HasPrefix(token, "account:cloud/real:") {
		t.Fatal(err, out)
	}
	to := "https://" + h.proxyTo(h.policyServer())
	enroll := func(wait time.Duration) (kubeconfig, out string, err error) {
		kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
		var said bytes.Buffer
		cmd := exec.Command(binary, "agent", "enroll", "--server", to, "--output", kubeconfig, "--wait", wait.String(), "-")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(token+"\n"), &said, &said
		err = h.host.Do(cmd.Run)
		return kubeconfig, said.String(), err
	}
	// Until the account has been read, that is what is told.
	eventually(t, time.Minute, "nobody hands the VM to its agent", func(context.Context) (bool, string) {
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

	// The file does not say which host it is: the certificate does.
	config := filepath.Join(h.files, "agent.yaml")
	text := fmt.Sprintf("kubeconfig: %s\nstateDir: %s\nlogFile: %s\n", kubeconfig, filepath.Join(h.files, "state"), filepath.Join(h.files, "policies.log"))
	must(t, os.WriteFile(config, []byte(text), 0o600))
	stop := h.startAgent(config)
	h.stands("its agent has come", false, true, "True", "former groups", false)
	stop(syscall.SIGTERM)
}

package controlplane

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// Names of the files in pki/. There is one authority per trust relation, so that a certificate for
// one is worthless for another.
const (
	clusterAuthority    = "ca"                // the API server and its clients
	frontProxyAuthority = "front-proxy-ca"    // the API server as a client of aggregated API servers
	etcdAuthority       = "etcd-ca"           // etcd and its only client
	peerAuthority       = "etcd-peer-ca"      // the members of a database of several
	webhookAuthority    = "webhook-client-ca" // the API server as a client of admission webhooks
	apiServerCert       = "apiserver"         //
	adminCert           = "admin"             //
	frontProxyCert      = "front-proxy"       //
	etcdServerCert      = "etcd-server"       //
	etcdClientCert      = "etcd-client"       //
	peerCert            = "etcd-peer"         //
	webhookClientCert   = "webhook-client"    //
	serviceAccountKey   = "service-account"   // signs ServiceAccount tokens
)

// frontProxyUser is the only name that aggregated API servers must accept as a front proxy.
const frontProxyUser = "front-proxy-client"

// serviceNetwork is where ClusterIPs come from; the API server takes its first address for the
// "kubernetes" Service. There is no cluster network, so a call to a Service reaches this machine
// and is refused: with a private range, the call might reach a foreign host.
var serviceNetwork = netip.MustParsePrefix("127.96.0.0/12")

// credentials are the keys and certificates of one control plane, and the kubeconfig made from
// them.
type credentials struct {
	dir        *dataDir
	store      *certs.Store
	kubeconfig string
	// address is where the API server listens, hosts are further names and addresses it is reached
	// by.
	address netip.AddrPort
	names   []string
	ips     []net.IP
	// peers is nil for the only member of a database.
	peers *peers
}

func newCredentials(dir *dataDir, l net.Listener, p *peers, now func() time.Time) (*credentials, error) {
	store, err := certs.Open(dir.pki(), now)
	if err != nil {
		return nil, fmt.Errorf("open the key store: %w", err)
	}
	c := &credentials{dir: dir, store: store, kubeconfig: dir.kubeconfig(), address: reachable(l), peers: p}
	c.names = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	c.ips = []net.IP{{127, 0, 0, 1}, net.IPv6loopback, serviceNetwork.Addr().Next().AsSlice(), c.address.Addr().AsSlice()}
	if l.Addr().(*net.TCPAddr).IP.IsUnspecified() {
		if err := c.addInterfaces(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// addInterfaces names all the addresses of this machine in the serving certificate, for a server
// that listens on all of them.
func (c *credentials) addInterfaces() error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list the addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			c.ips = append(c.ips, n.IP)
		}
	}
	if host, err := os.Hostname(); err == nil {
		c.names = append(c.names, host)
	}
	return nil
}

// ensure creates what is missing and renews what is near its end. The servers and clients of this
// process read the files again by themselves when they change.
func (c *credentials) ensure() error {
	cluster, err := c.store.Authority(clusterAuthority)
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	frontProxy, err := c.store.Authority(frontProxyAuthority)
	if err != nil {
		return fmt.Errorf("front proxy certificate authority: %w", err)
	}
	if err := c.ensureEtcd(); err != nil {
		return err
	}
	webhooks, err := c.store.Authority(webhookAuthority)
	if err != nil {
		return fmt.Errorf("webhook client certificate authority: %w", err)
	}
	for _, leaf := range []struct {
		name    string
		signer  *certs.Authority
		profile certs.Profile
	}{
		{apiServerCert, cluster, certs.Profile{CommonName: "kube-apiserver", DNSNames: c.names, IPs: c.ips, Server: true}},
		{adminCert, cluster, certs.Profile{CommonName: "nephele-admin", Organizations: []string{administrators}, Client: true}},
		{frontProxyCert, frontProxy, certs.Profile{CommonName: frontProxyUser, Client: true}},
		{webhookClientCert, webhooks, certs.Profile{CommonName: "kube-apiserver", Client: true}},
	} {
		if _, err := c.store.Certificate(leaf.name, leaf.signer, leaf.profile); err != nil {
			return fmt.Errorf("certificate %s: %w", leaf.name, err)
		}
	}
	if c.peers != nil {
		authority, err := c.store.Authority(peerAuthority)
		if err != nil {
			return fmt.Errorf("authority of the members: %w", err)
		}
		member := certs.Profile{CommonName: "etcd-peer", IPs: []net.IP{c.peers.listen.Addr().AsSlice()}, Server: true, Client: true}
		if _, err := c.store.Certificate(peerCert, authority, member); err != nil {
			return fmt.Errorf("certificate %s: %w", peerCert, err)
		}
	}
	if _, err := c.store.SigningKey(serviceAccountKey); err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	return c.writeKubeconfig(cluster)
}

// ensureEtcd is ensure for what etcd and its only client need.
func (c *credentials) ensureEtcd() error {
	etcd, err := c.store.Authority(etcdAuthority)
	if err != nil {
		return fmt.Errorf("etcd certificate authority: %w", err)
	}
	for name, profile := range map[string]certs.Profile{
		etcdServerCert: {CommonName: "etcd", IPs: []net.IP{{127, 0, 0, 1}}, Server: true},
		etcdClientCert: {CommonName: "kube-apiserver", Client: true},
	} {
		if _, err := c.store.Certificate(name, etcd, profile); err != nil {
			return fmt.Errorf("certificate %s: %w", name, err)
		}
	}
	return nil
}

// url is the address of the API server.
func (c *credentials) url() string { return "https://" + c.address.String() }

// adminConfig is the administrator's client configuration. It names the files, not their content:
// the client follows renewals.
func (c *credentials) adminConfig() *rest.Config {
	return &rest.Config{
		Host: c.url(),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   c.store.CertFile(clusterAuthority),
			CertFile: c.store.CertFile(adminCert),
			KeyFile:  c.store.KeyFile(adminCert),
		},
		// The server's priority and fairness is the limit; a second one in each client only adds
		// delay.
		QPS: -1,
	}
}

// writeKubeconfig writes a self-contained kubeconfig, so that it can be copied elsewhere.
func (c *credentials) writeKubeconfig(cluster *certs.Authority) error {
	cert, err := os.ReadFile(c.store.CertFile(adminCert))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.store.KeyFile(adminCert))
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["nephele"] = &clientcmdapi.Cluster{Server: c.url(), CertificateAuthorityData: cluster.CertPEM()}
	config.AuthInfos["nephele-admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts["nephele"] = &clientcmdapi.Context{Cluster: "nephele", AuthInfo: "nephele-admin", Namespace: "default"}
	config.CurrentContext = "nephele"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := certs.WriteFile(c.kubeconfig, data, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	extensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// KubernetesVersion is the version of the API server, as clients see it at /version. It is the
// version of module k8s.io/kubernetes in go.mod.
const KubernetesVersion = "v1.36.3"

// serviceAccountIssuer names this API server in the tokens it signs.
const serviceAccountIssuer = "https://kubernetes.default.svc.cluster.local"

// shutdownGrace bounds how long requests in flight and watches may delay the end.
const shutdownGrace = 2 * time.Second

// preparedServer is an API server that only has to be run. Run returns after ctx has ended and
// requests have been drained.
type preparedServer interface {
	Run(ctx context.Context) error
}

// newAPIServer builds kube-apiserver with the aggregator on l, backed by the etcd at etcdURL. It
// also returns what answers its requests, and how the server reaches itself, which no role
// restricts. What it knows of kinds is put into kinds.
func newAPIServer(
	ctx context.Context, l net.Listener, etcdURL string, creds *credentials, secrets *encryption, kinds *knownKinds, podless bool,
) (preparedServer, http.Handler, *rest.Config, error) {
	completed, err := serverOptions(ctx, l, etcdURL, creds, secrets, kinds, podless)
	if err != nil {
		return nil, nil, nil, err
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	// OpenAPI v2 is one document of all kinds, which takes much memory, and which clients of the
	// last years do not ask for: version 3 goes by groups. What is left of version 2 is what
	// reports CustomResourceDefinitions. Without that there would be no version 3 of these.
	config.KubeAPIs.ControlPlane.Generic.OpenAPIConfig, config.Aggregator.GenericConfig.OpenAPIConfig = nil, nil
	// The server of definitions would keep a description of all kinds of Kubernetes for itself.
	definitions := config.ApiExtensions.GenericConfig
	v2, v3 := *definitions.OpenAPIConfig, *definitions.OpenAPIV3Config
	v2.GetDefinitions, v3.GetDefinitions = extensions.GetOpenAPIDefinitions, extensions.GetOpenAPIDefinitions
	definitions.OpenAPIConfig, definitions.OpenAPIV3Config = &v2, &v3
	completedConfig, err := config.Complete()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("configure kube-apiserver: %w", err)
	}
	server, err := app.CreateServerChain(completedConfig)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("build kube-apiserver: %w", err)
	}
	// The default is the request timeout, a minute, which any open watch would use up.
	server.GenericAPIServer.ShutdownTimeout = shutdownGrace
	prepared, err := server.PrepareRun()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("prepare kube-apiserver: %w", err)
	}
	return prepared, server.GenericAPIServer.Handler, rest.CopyConfig(server.GenericAPIServer.LoopbackClientConfig), nil
}

func serverOptions(
	ctx context.Context, l net.Listener, etcdURL string, creds *credentials, secrets *encryption, kinds *knownKinds, podless bool,
) (options.CompletedOptions, error) {
	none := options.CompletedOptions{}
	admission, err := creds.writeAdmission()
	if err != nil {
		return none, err
	}
	registry, err := versionRegistry()
	if err != nil {
		return none, err
	}
	o := options.NewServerRunOptions()
	o.GenericServerRunOptions.ComponentGlobalsRegistry = registry
	o.SecureServing.Listener = l
	kinds.register(o.Admission.GenericAdmission)
	unmanaged{}.register(o.Admission.GenericAdmission)
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, named := range o.Flags().FlagSets {
		flags.AddFlagSet(named)
	}
	args := append(serverFlags(l, etcdURL, creds), "--encryption-provider-config="+secrets.path, "--admission-control-config-file="+admission)
	if podless {
		args = append(args, "--runtime-config="+strings.Join(unserved, ","), "--disable-admission-plugins="+strings.Join(pointless, ","))
	}
	if err := flags.Parse(args); err != nil {
		return none, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	if err := registry.Set(); err != nil {
		return none, fmt.Errorf("kube-apiserver versions: %w", err)
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return none, fmt.Errorf("kube-apiserver options: %w", err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return none, fmt.Errorf("kube-apiserver options: %w", utilerrors.NewAggregate(errs))
	}
	return completed, nil
}

// serverFlags is the configuration of kube-apiserver in its own words.
func serverFlags(l net.Listener, etcdURL string, creds *credentials) []string {
	addr := l.Addr().(*net.TCPAddr)
	cert, key := creds.store.CertFile, creds.store.KeyFile
	return []string{
		"--bind-address=" + addr.IP.String(),
		fmt.Sprintf("--secure-port=%d", addr.Port),
		"--advertise-address=" + creds.address.Addr().String(),
		// No endpoints for the "kubernetes" Service: a loopback address is not allowed in one, and
		// nothing routes to it.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceNetwork.String(),
		"--tls-cert-file=" + cert(apiServerCert),
		"--tls-private-key-file=" + key(apiServerCert),

		"--etcd-servers=" + etcdURL,
		"--etcd-cafile=" + cert(etcdAuthority),
		"--etcd-certfile=" + cert(etcdClientCert),
		"--etcd-keyfile=" + key(etcdClientCert),

		"--anonymous-auth=false",
		"--authorization-mode=RBAC",
		"--client-ca-file=" + cert(clusterAuthority),
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + creds.store.VerifyingFile(serviceAccountKey),
		"--service-account-signing-key-file=" + key(serviceAccountKey),

		// How aggregated API servers authenticate the caller; published in ConfigMap
		// kube-system/extension-apiserver-authentication.
		"--requestheader-client-ca-file=" + cert(frontProxyAuthority),
		"--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + cert(frontProxyCert),
		"--proxy-client-key-file=" + key(frontProxyCert),

		"--profiling=false",
		// A cache would hold all objects once more, decoded, and the last thousands of versions of
		// them, to spare an etcd on other machines many readers. This one is in the same process,
		// and each kind has two or three.
		"--watch-cache=false",
		// etcd compacts by itself. The API server would keep a watch open for it until etcd, which
		// waits for its clients when it stops, loses patience after five seconds.
		"--etcd-compaction-interval=0",
		"--shutdown-watch-termination-grace-period=" + shutdownGrace.String(),
	}
}

// unserved are the API groups of Kubernetes that mean nothing where no Pod runs.
var unserved = []string{
	"apps/v1=false", "autoscaling/v1=false", "autoscaling/v2=false", "batch/v1=false", "certificates.k8s.io/v1=false", "node.k8s.io/v1=false",
	"policy/v1=false", "resource.k8s.io/v1=false", "scheduling.k8s.io/v1=false", "storage.k8s.io/v1=false",
}

// pointless are the admission plugins that read kinds of these groups, or decide about objects of
// them.
var pointless = []string{
	"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "DefaultIngressClass", "DefaultStorageClass",
	"PersistentVolumeClaimResize", "PodTopologyLabels", "Priority", "RuntimeClass", "StorageObjectInUseProtection", "TaintNodesByCondition",
}

// versionRegistry is what the API server takes its version and feature gates from: the defaults,
// but with a version that clients can parse even in a binary that was linked without one (go test,
// go run).
func versionRegistry() (basecompatibility.ComponentGlobalsRegistry, error) {
	registry := basecompatibility.NewComponentGlobalsRegistry()
	version := stampedVersion{compatibility.DefaultBuildEffectiveVersion()}
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, version, gates); err != nil {
		return nil, fmt.Errorf("kube-apiserver versions: %w", err)
	}
	return registry, nil
}

// stampedVersion reports KubernetesVersion whatever the linker was reported.
type stampedVersion struct {
	basecompatibility.MutableEffectiveVersion
}

// Info implements basecompatibility.EffectiveVersion.
func (v stampedVersion) Info() *apimachineryversion.Info {
	info := v.MutableEffectiveVersion.Info()
	info.GitVersion = KubernetesVersion
	return info
}

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/config/grants"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// existing is a cluster that somebody else runs, with what "kubectl apply -k config/" puts into it.
type existing struct {
	t       *testing.T
	cp      *controlplane.ControlPlane
	admin   client.Client
	kube    kubernetes.Interface
	objects []*unstructured.Unstructured
	// kubeconfig is that of the controller's ServiceAccount; it leads through the recorder.
	kubeconfig string
	recorder   *recorder
	// pod names the next Pod; nephele-1 if it is empty.
	pod string
}

// newExisting applies the manifest in a directory. The namespaces are there before.
func newExisting(t *testing.T, dir string, namespaces ...string) *existing {
	t.Helper()
	return newExistingWith(t, built(t, dir), namespaces...)
}

// newExistingWith does so with objects from elsewhere.
func newExistingWith(t *testing.T, objects []*unstructured.Unstructured, namespaces ...string) *existing {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	x := &existing{t: t, cp: cp, objects: objects}
	x.must(cp.Ready(t.Context()))
	// The definitions that the manifest has, and the optional ones of the upstream kinds.
	x.must(cp.InstallCRDs(t.Context(), crd.FS()))
	x.admin = newClient(t, cp.RestConfig())
	x.kube, err = kubernetes.NewForConfig(cp.RestConfig())
	x.must(err)
	for _, name := range namespaces {
		x.must(x.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for _, o := range x.objects {
		if o.GetKind() != "CustomResourceDefinition" {
			x.must(x.admin.Create(t.Context(), o.DeepCopy(), &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}}))
		}
	}
	// The same once more, so that the API server finds the kind Tier at once and not within half a
	// minute.
	x.must(cp.Apply(t.Context(), grants.FS()))
	x.recorder = newRecorder(t, cp.RestConfig())
	x.kubeconfig = x.loginAt(clientcmdapi.Cluster{Server: x.recorder.server.URL, CertificateAuthorityData: x.recorder.ca()}, "kube-system", "nephele-controller")
	return x
}

func (x *existing) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// token is one for a ServiceAccount.
func (x *existing) token(namespace, name string) string {
	x.t.Helper()
	answer, err := x.kube.CoreV1().ServiceAccounts(namespace).CreateToken(x.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	x.must(err)
	return answer.Status.Token
}

// login writes a kubeconfig for a ServiceAccount.
func (x *existing) login(namespace, name string) string {
	x.t.Helper()
	admin := x.cp.RestConfig()
	return x.loginAt(clientcmdapi.Cluster{Server: x.cp.URL(), CertificateAuthorityData: admin.CAData, CertificateAuthority: admin.CAFile}, namespace, name)
}

func (x *existing) loginAt(at clientcmdapi.Cluster, namespace, name string) string {
	x.t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &at
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: x.token(namespace, name)}
	cfg.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "c"
	path := filepath.Join(x.t.TempDir(), "kubeconfig")
	x.must(clientcmd.WriteToFile(*cfg, path))
	return path
}

// pod is the controller, run as its Deployment says on this machine.
type pod struct {
	*process
	t                    *testing.T
	api, health, metrics string
}

// start runs the container of the Deployment, with what only a machine of its own could give it
// replaced, and more arguments.
func (x *existing) start(more ...string) *pod {
	x.t.Helper()
	var d appsv1.Deployment
	for _, o := range x.objects {
		if o.GetKind() == "Deployment" {
			x.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
		}
	}
	c := d.Spec.Template.Spec.Containers[0]
	variables := map[string]string{"POD_NAME": cmp.Or(x.pod, "nephele-1"), "POD_IP": "127.0.0.1", "POD_NAMESPACE": d.Namespace, "NODE_NAME": "n1"}
	p := &pod{t: x.t, api: freeAddress(x.t), health: freeAddress(x.t), metrics: freeAddress(x.t)}
	replaced := map[string]string{
		"--api": p.api, "--api-cert-dir": x.t.TempDir(), "--metrics": strings.Replace(p.metrics, "127.0.0.1", "0.0.0.0", 1), "--health": p.health,
	}
	var args []string
	for _, a := range c.Args {
		flag, _, _ := strings.Cut(a, "=")
		if v, ok := replaced[flag]; ok {
			a = flag + "=" + v
			delete(replaced, flag)
		}
		for name, value := range variables {
			a = strings.ReplaceAll(a, "$("+name+")", value)
		}
		args = append(args, a)
	}
	if len(replaced) != 0 {
		x.t.Fatalf("the Deployment does not say %v", replaced)
	}
	args = append(args, "--kubeconfig="+x.kubeconfig, "--allowed-endpoints=loopback") // the clouds are simulated here
	cmd := exec.Command(binary, append(args, more...)...)
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value+variables[e.Name])
	}
	out := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	x.must(cmd.Start())
	p.process = &process{cmd: cmd, output: out, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		spent(x.t.Name(), cmd.ProcessState, true)
		close(p.exited)
	}()
	x.t.Cleanup(func() {
		p.end()
		if x.t.Failed() {
			x.t.Logf("the controller:\n%s", tail(out.String(), 12000))
		}
	})
	return p
}

// end ends the controller in order, and fails the test if it was ever refused something.
func (p *pod) end() {
	select {
	case <-p.exited:
	default:
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(waitLimit):
			_ = p.cmd.Process.Kill()
			p.t.Errorf("the controller did not end within %s after SIGTERM", waitLimit)
		}
	}
	for _, line := range strings.Split(p.output.String(), "\n") {
		if strings.Contains(line, "forbidden") || strings.Contains(line, "cannot ") && strings.Contains(line, "at the cluster scope") {
			p.t.Errorf("a right is missing: %s", line)
		}
	}
}

// ask sends a request to the controller's own port.
func (p *pod) ask(ctx context.Context, method, path, token string, body any) (int, []byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "https://"+p.api+path, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

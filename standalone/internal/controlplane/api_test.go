package controlplane

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/api/generated/crd"
)

var widgets = schema.GroupVersionResource{Group: "test.nephele.example", Version: "v1", Resource: "widgets"}

// newNamespace makes a namespace and returns its name, which begins with prefix.
func newNamespace(t *testing.T, prefix string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	made, err := clientset(t).CoreV1().Namespaces().Create(t.Context(), ns, create)
	if err != nil {
		t.Fatal(err)
	}
	return made.Name
}

func configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}, Data: map[string]string{"k": "v"}}
}

func widget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.nephele.example/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
	}}
}

// widgetClient installs the CustomResourceDefinition of the tests.
func widgetClient(t *testing.T, namespace string) dynamic.ResourceInterface {
	t.Helper()
	cp := server(t)
	if err := cp.InstallCRDs(t.Context(), os.DirFS("testdata/crd")); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(cp.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(widgets).Namespace(namespace)
}

func TestVersionIsThatOfTheModule(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes ` + regexp.QuoteMeta(KubernetesVersion) + `( //.*)?$`).Match(mod) {
		t.Errorf("go.mod does not require k8s.io/kubernetes %s", KubernetesVersion)
	}
	info, err := clientset(t).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	got, err := version.ParseSemantic(info.GitVersion)
	if err != nil {
		t.Fatal(err)
	}
	if "v"+got.String() != KubernetesVersion || info.Major != "1" || info.Minor != fmt.Sprint(got.Minor()) {
		t.Errorf("server version = %s, %s.%s; want %s", info.GitVersion, info.Major, info.Minor, KubernetesVersion)
	}
}

func TestKubeconfigWorksAndSecretsAreClosed(t *testing.T) {
	cp := server(t)
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.BearerToken != "" || config.Insecure {
		t.Errorf("kubeconfig has token %q, insecure = %v", config.BearerToken, config.Insecure)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", get); err != nil {
		t.Error(err)
	}
	keys, err := filepath.Glob(filepath.Join(shared.dir, "pki", "*.key"))
	if err != nil || len(keys) < 9 {
		t.Fatalf("found %d keys (error %v), want at least 9", len(keys), err)
	}
	for _, path := range append(keys, cp.Kubeconfig()) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", path, info.Mode().Perm())
		}
	}
}

func TestInstallCRDs(t *testing.T) {
	ns := newNamespace(t, "crds")
	client := widgetClient(t, ns)
	if _, err := client.Create(t.Context(), widget("w", 1), create); err != nil {
		t.Errorf("create at once after InstallCRDs: %v", err)
	}
	if _, err := client.Create(t.Context(), widget("w0", 0), create); !apierrors.IsInvalid(err) {
		t.Errorf("an object against the schema: error %v, want Invalid", err)
	}
	if err := server(t).InstallCRDs(t.Context(), os.DirFS("testdata/crd")); err != nil {
		t.Errorf("install again: %v", err)
	}
}

// TestInstalledIsNotAppliedAgain: a definition that is as its manifest says is not applied again.
// One that somebody else has written to is, and one of a former manifest, which loses its surplus.
func TestInstalledIsNotAppliedAgain(t *testing.T) {
	cp := server(t)
	client, err := apiextensions.NewForConfig(cp.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	lacking := func(manifests fs.FS) (names []string) {
		t.Helper()
		crds, err := readCRDs(manifests)
		if err != nil {
			t.Fatal(err)
		}
		there, err := installed(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range crds {
			if now := there[crd.Name]; now == nil || !isInstalled(now, crd) {
				names = append(names, crd.Name)
			}
		}
		return names
	}
	install := func(manifests fs.FS) {
		t.Helper()
		if err := cp.InstallCRDs(t.Context(), manifests); err != nil {
			t.Fatal(err)
		}
		if names := lacking(manifests); len(names) > 0 {
			t.Errorf("just installed, and to be applied again: %q", names)
		}
	}
	install(crd.FS())
	ours := os.DirFS("testdata/crd")
	install(ours)
	const name = "widgets.test.nephele.example"
	described := func() string {
		t.Helper()
		crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, get)
		if err != nil {
			t.Fatal(err)
		}
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description
	}
	manifest, err := fs.ReadFile(ours, "widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func() error{
		func() error {
			patch := []byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"theirs"}]`)
			_, err := client.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"})
			return err
		},
		func() error {
			former := strings.Replace(string(manifest), "openAPIV3Schema:", "openAPIV3Schema:\n        description: former", 1)
			return cp.InstallCRDs(t.Context(), fstest.MapFS{"widgets.yaml": {Data: []byte(former)}})
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if names := lacking(ours); len(names) != 1 || described() == "" {
			t.Errorf("described as %q: %q is to be applied again, want it", described(), names)
		}
	}
	install(ours)
	if got := described(); got != "" {
		t.Errorf("it is still described as %q", got)
	}
}

// TestOpenAPI: version 3 describes the kinds of Kubernetes and of definitions.
func TestOpenAPI(t *testing.T) {
	widgetClient(t, newNamespace(t, "openapi"))
	for path, kind := range map[string]string{"api/v1": "io.k8s.api.core.v1.ConfigMap", "apis/" + widgets.GroupVersion().String(): "example.nephele.test.v1.Widget"} {
		eventually(t, path, func(ctx context.Context) error {
			text, err := clientset(t).Discovery().RESTClient().Get().AbsPath("/openapi/v3/" + path).DoRaw(ctx)
			if err == nil && !strings.Contains(string(text), `"`+kind+`"`) {
				err = fmt.Errorf("%d bytes without %s", len(text), kind)
			}
			return err
		})
	}
}

// TestPodless: without Pods that run, the groups that manage them are not served, and everything
// that policies are about is.
func TestPodless(t *testing.T) {
	groups, err := clientset(t).Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, g := range groups.Groups {
		served[g.Name] = true
	}
	for _, group := range unserved {
		if name, _, _ := strings.Cut(group, "/"); served[name] {
			t.Errorf("%s is served", name)
		}
	}
	for _, name := range []string{
		"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
		"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "rbac.authorization.k8s.io",
	} {
		if !served[name] {
			t.Errorf("%q is not served", name)
		}
	}
	ns := newNamespace(t, "podless")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	eventually(t, "a Pod", func(ctx context.Context) error {
		_, err := clientset(t).CoreV1().Pods(ns).Create(ctx, pod, create)
		return err
	})
}

// TestSharedCRDsAreLeftAlone: a definition that somebody else has installed stays as it is where
// its group is shared, and is put right where it is not.
func TestSharedCRDsAreLeftAlone(t *testing.T) {
	widgetClient(t, newNamespace(t, "shared"))
	cp := server(t)
	crds, err := apiextensions.NewForConfig(cp.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	const name = "widgets.test.nephele.example"
	scope := func() string {
		t.Helper()
		crd, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description
	}
	install := func(shared ...string) {
		t.Helper()
		if err := cp.InstallCRDs(t.Context(), os.DirFS("testdata/crd"), shared...); err != nil {
			t.Fatal(err)
		}
	}
	before := scope()
	install(widgets.Group)
	if got := scope(); got != before {
		t.Fatalf("our own one became %q", got)
	}
	patch := []byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"theirs"}]`)
	if _, err := crds.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	install(widgets.Group, "another.group")
	if got := scope(); got != "theirs" {
		t.Errorf("where the group is shared it became %q", got)
	}
	if err := crds.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func(ctx context.Context) error {
		_, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %v", err)
	})
	install(widgets.Group)
	if got := scope(); got != before {
		t.Errorf("what is missing is installed as %q", got)
	}
}

func TestInstallCRDsRefusesOtherFiles(t *testing.T) {
	for name, text := range map[string]string{
		"kind.yaml":   "kind: ConfigMap\napiVersion: v1\n",
		"field.yaml":  "kind: CustomResourceDefinition\nspek: {}\n",
		"broken.yaml": "a: [\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := server(t).InstallCRDs(t.Context(), os.DirFS(dir))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one that names the file", name, err)
		}
	}
}

func TestNamespaceDeletionFinishes(t *testing.T) {
	ns := newNamespace(t, "doomed")
	client := clientset(t)
	custom := widgetClient(t, ns)
	if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("c"), create); err != nil {
		t.Fatal(err)
	}
	if _, err := custom.Create(t.Context(), widget("w", 1), create); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), ns, del); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, ns, get)
		return gone(err)
	})
	if _, err := custom.Get(t.Context(), "w", get); gone(err) != nil {
		t.Errorf("custom resource: %v", gone(err))
	}
}

func TestDependentsGoWithTheirOwner(t *testing.T) {
	ns := newNamespace(t, "owners")
	maps := clientset(t).CoreV1().ConfigMaps(ns)
	custom := widgetClient(t, ns)
	owner, err := maps.Create(t.Context(), configMap("owner"), create)
	if err != nil {
		t.Fatal(err)
	}
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
	dependent := widget("dependent", 1)
	dependent.SetOwnerReferences([]metav1.OwnerReference{ref})
	made, err := custom.Create(t.Context(), dependent, create)
	if err != nil {
		t.Fatal(err)
	}
	second := metav1.OwnerReference{APIVersion: "test.nephele.example/v1", Kind: "Widget", Name: made.GetName(), UID: made.GetUID()}
	if _, err := maps.Create(t.Context(), configMap("dependent-of-dependent", second), create); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), configMap("bystander"), create); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "owner", del); err != nil {
		t.Fatal(err)
	}
	eventually(t, "dependent", func(ctx context.Context) error {
		_, err := custom.Get(ctx, "dependent", get)
		return gone(err)
	})
	eventually(t, "dependent of the dependent", func(ctx context.Context) error {
		_, err := maps.Get(ctx, "dependent-of-dependent", get)
		return gone(err)
	})
	if _, err := maps.Get(t.Context(), "bystander", get); err != nil {
		t.Errorf("bystander: %v", err)
	}
}

func TestClusterRolesAreAggregated(t *testing.T) {
	roles := clientset(t).RbacV1().ClusterRoles()
	part := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "widgets-view-", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{widgets.Group}, Resources: []string{"widgets"}, Verbs: []string{"get"}}},
	}
	made, err := roles.Create(t.Context(), part, create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := roles.Delete(context.Background(), made.Name, del); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "view", func(ctx context.Context) error {
		view, err := roles.Get(ctx, "view", get)
		if err != nil {
			return err
		}
		for _, rule := range view.Rules {
			if len(rule.APIGroups) == 1 && rule.APIGroups[0] == widgets.Group {
				return nil
			}
		}
		return fmt.Errorf("%d rules, none for %s", len(view.Rules), widgets.Group)
	})
}

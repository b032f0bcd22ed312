package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nephele-io/nephele/internal/tier"
)

const plaintext = "correct-horse-battery-staple"

// begin starts a control plane of a test's own. It is stopped by the returned function, or with the
// test.
func begin(t *testing.T, dir string) (*ControlPlane, *kubernetes.Clientset, func()) {
	t.Helper()
	if err := stopShared(); err != nil {
		t.Fatal(err)
	}
	cp, err := Start(t.Context(), Options{DataDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cp.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cp.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cp.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	return cp, client, stop
}

// stored is what etcd holds about Secrets, by key.
func stored(t *testing.T, cp *ControlPlane) map[string][]byte {
	t.Helper()
	r, err := cp.etcd.Server.KV().Range(t.Context(), []byte("/registry/secrets/"), []byte("/registry/secrets0"), mvcc.RangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, kv := range r.KVs {
		out[string(kv.Key)] = kv.Value
	}
	return out
}

func someSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"k": []byte(plaintext)}}
}

// readable fails unless the API shows what is in a Secret.
func readable(t *testing.T, client *kubernetes.Clientset, names ...string) {
	t.Helper()
	for _, name := range names {
		if s, err := client.CoreV1().Secrets("default").Get(t.Context(), name, get); err != nil || string(s.Data["k"]) != plaintext {
			t.Errorf("Secret %s: %v, %v", name, s, err)
		}
	}
}

// filesWith are the files below a directory that contain a text.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSecretsAreEncrypted: what is in a Secret is nowhere in the data directory, and only the owner
// of that reads the key.
func TestSecretsAreEncrypted(t *testing.T) {
	dir := t.TempDir()
	cp, client, stop := begin(t, dir)
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), someSecret("fresh"), create); err != nil {
		t.Fatal(err)
	}
	// What is no Secret shows that the search finds something.
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "open"}, Data: map[string]string{"k": "lies-in-the-open"}}, create); err != nil {
		t.Fatal(err)
	}
	raw := stored(t, cp)["/registry/secrets/default/fresh"]
	if !bytes.HasPrefix(raw, []byte("k8s:enc:secretbox:v1:")) || bytes.Contains(raw, []byte(plaintext)) {
		t.Errorf("etcd holds %q", raw)
	}
	readable(t, client, "fresh")
	config := filepath.Join(dir, "pki", "encryption.yaml")
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	if text, err := os.ReadFile(config); err != nil || strings.Contains(string(text), "identity") {
		t.Errorf("what is not encrypted is believed: %s (%v)", text, err)
	}
	stop()
	if found := filesWith(t, dir, plaintext); len(found) > 0 {
		t.Errorf("the content of the Secret is in %v", found)
	}
	if found := filesWith(t, filepath.Join(dir, "etcd"), "lies-in-the-open"); len(found) == 0 {
		t.Error("the search would not have found it")
	}
	_, client, _ = begin(t, dir)
	readable(t, client, "fresh")
}

// TestFormerSecretsAreEncrypted: the Secrets of a data directory that knew no encryption stay
// readable and are written once more, encrypted; then nothing is believed any more that is not.
func TestFormerSecretsAreEncrypted(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "pki", "encryption.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	// With this alone nothing is encrypted, as before.
	none := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{identity: {}}]}]\n"
	if err := os.WriteFile(config, []byte(none), 0o600); err != nil {
		t.Fatal(err)
	}
	cp, client, stop := begin(t, dir)
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("former-%d", i))
		s := someSecret(names[i])
		if i == 0 {
			immutable := true
			s.Immutable = &immutable
		}
		if _, err := client.CoreV1().Secrets("default").Create(t.Context(), s, create); err != nil {
			t.Fatal(err)
		}
	}
	if raw := stored(t, cp)["/registry/secrets/default/former-1"]; !bytes.Contains(raw, []byte(plaintext)) {
		t.Fatalf("this is to be in the clear: %q", raw)
	}
	stop()
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}

	cp, client, stop = begin(t, dir)
	for key, raw := range stored(t, cp) {
		if !bytes.HasPrefix(raw, []byte("k8s:enc:secretbox:v1:")) {
			t.Errorf("%s holds %.60q", key, raw)
		}
	}
	readable(t, client, names...)
	if text, err := os.ReadFile(config); err != nil || strings.Contains(string(text), "identity") {
		t.Errorf("what is not encrypted goes on being believed: %s (%v)", text, err)
	}
	before := stored(t, cp)
	stop()

	// It is done once, and a Secret that somebody writes into the database in the clear is no
	// Secret.
	cp, client, _ = begin(t, dir)
	readable(t, client, names...)
	for key, raw := range stored(t, cp) {
		if !bytes.Equal(raw, before[key]) {
			t.Errorf("%s was written again", key)
		}
	}
	_, err := v3client.New(cp.etcd.Server).Put(t.Context(), "/registry/secrets/default/planted",
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"planted","namespace":"default"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := client.CoreV1().Secrets("default").Get(t.Context(), "planted", get); err == nil {
		t.Errorf("a Secret that was planted is believed: %v", s)
	}
}

// TestEncryptionKeyIsChanged: a new key before the former one is taken up for everything, and the
// former one forgotten.
func TestEncryptionKeyIsChanged(t *testing.T) {
	tier.OnlyLong(t, "TestKeysRotate changes the same key by the command")
	dir := t.TempDir()
	_, client, stop := begin(t, dir)
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), someSecret("s"), create); err != nil {
		t.Fatal(err)
	}
	stop()
	config := filepath.Join(dir, "pki", "encryption.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var indent string
	for line := range strings.Lines(string(text)) {
		if before, ok := strings.CutSuffix(strings.TrimRight(line, "\n"), "- name: key1"); ok {
			indent = before
		}
	}
	newer := indent + "- name: key2\n" + indent + "  secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), indent+"- name: key1", newer+indent+"- name: key1", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	cp, client, stop := begin(t, dir)
	readable(t, client, "s")
	for key, raw := range stored(t, cp) {
		if !bytes.HasPrefix(raw, []byte("k8s:enc:secretbox:v1:key2:")) {
			t.Errorf("%s holds %.60q", key, raw)
		}
	}
	stop()
	text, err = os.ReadFile(config)
	if err != nil || strings.Contains(string(text), "key1") || !strings.Contains(string(text), "key2") {
		t.Errorf("the configuration is %s (%v)", text, err)
	}
	if info, err := os.Stat(config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	_, client, _ = begin(t, dir)
	readable(t, client, "s")
}

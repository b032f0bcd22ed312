package controlplane

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserver "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

const (
	// encryptionFile is the configuration, with the key, by which the API server encrypts Secrets
	// before they reach etcd.
	encryptionFile = "encryption.yaml"
	// encryptionKeySize is that of XSalsa20 and Poly1305.
	encryptionKeySize = 32
	// secretsPage is how many Secrets are read at a time.
	secretsPage = 200
)

// encryption is how Secrets are encrypted at rest. The first key is the one that is written with;
// what else is in the configuration is for what was written before.
type encryption struct {
	path   string
	config apiserver.EncryptionConfiguration
}

// openEncryption reads the configuration, or makes one with a new key. Where there is a database
// already, what it holds is not encrypted, and is understood as it is.
func openEncryption(dir *dataDir) (*encryption, error) {
	e := &encryption{path: filepath.Join(dir.pki(), encryptionFile)}
	err := e.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		former, err := dir.hasDatabase()
		if err != nil {
			return nil, fmt.Errorf("encryption of Secrets: %w", err)
		}
		return e, e.create(former)
	case err != nil:
		return nil, err
	}
	// A key whose mode was loosened by hand or by a copy is closed again.
	if err := os.Chmod(e.path, 0o600); err != nil {
		return nil, fmt.Errorf("encryption of Secrets: %w", err)
	}
	return e, nil
}

// read reads the configuration.
func (e *encryption) read() error {
	raw, err := os.ReadFile(e.path)
	if err != nil {
		return fmt.Errorf("encryption of Secrets: %w", err)
	}
	if err := yaml.UnmarshalStrict(raw, &e.config); err != nil {
		return fmt.Errorf("encryption of Secrets: %s: %w", e.path, err)
	}
	return nil
}

// create makes a key. What is not encrypted is understood if there is such.
func (e *encryption) create(former bool) error {
	key := make([]byte, encryptionKeySize)
	if _, err := rand.Read(key); err != nil {
		return fmt.Errorf("encryption of Secrets: %w", err)
	}
	providers := []apiserver.ProviderConfiguration{{Secretbox: &apiserver.SecretboxConfiguration{
		Keys: []apiserver.Key{{Name: "key1", Secret: base64.StdEncoding.EncodeToString(key)}},
	}}}
	if former {
		providers = append(providers, apiserver.ProviderConfiguration{Identity: &apiserver.IdentityConfiguration{}})
	}
	return e.write(providers)
}

func (e *encryption) write(providers []apiserver.ProviderConfiguration) error {
	config := apiserver.EncryptionConfiguration{
		TypeMeta:  metav1.TypeMeta{APIVersion: apiserverConfig, Kind: "EncryptionConfiguration"},
		Resources: []apiserver.ResourceConfiguration{{Resources: []string{"secrets"}, Providers: providers}},
	}
	raw, err := yaml.Marshal(config)
	if err != nil {
		return fmt.Errorf("encryption of Secrets: %w", err)
	}
	if err := certs.WriteFile(e.path, raw, 0o600); err != nil {
		return fmt.Errorf("encryption of Secrets: %w", err)
	}
	e.config = config
	return nil
}

// latest returns the provider that Secrets are written with, with no other key than that one; nil
// if the configuration is one that we would not have written. superseded says that there is more in
// it.
func (e *encryption) latest() (latest *apiserver.ProviderConfiguration, superseded bool) {
	if len(e.config.Resources) != 1 || len(e.config.Resources[0].Providers) == 0 {
		return nil, false
	}
	providers := e.config.Resources[0].Providers
	box := providers[0].Secretbox
	if box == nil || len(box.Keys) == 0 {
		return nil, false
	}
	return &apiserver.ProviderConfiguration{Secretbox: &apiserver.SecretboxConfiguration{Keys: box.Keys[:1:1]}}, len(providers) > 1 || len(box.Keys) > 1
}

// catchUp writes every Secret once more if there may be some that are not encrypted by the latest
// key, and then forgets how those could be read. It can be repeated, and goes on with the next
// start if it was interrupted.
func (e *encryption) catchUp(ctx context.Context, client kubernetes.Interface) error {
	latest, superseded := e.latest()
	if latest == nil || !superseded {
		return nil
	}
	for page := (metav1.ListOptions{Limit: secretsPage}); ; {
		list, err := client.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, page)
		if err != nil {
			return fmt.Errorf("encrypt the Secrets of before: %w", err)
		}
		for i := range list.Items {
			s := &list.Items[i]
			// The API server writes an object that has not changed if it was read by another key. A
			// faster writer has encrypted it, too.
			_, err := client.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{FieldManager: fieldManager})
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("encrypt the Secret %s/%s of before: %w", s.Namespace, s.Name, err)
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			break
		}
	}
	return e.write([]apiserver.ProviderConfiguration{*latest})
}

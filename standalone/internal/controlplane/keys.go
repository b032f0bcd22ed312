package controlplane

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	apiserver "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"github.com/nephele-io/nephele/internal/platform/certs"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// Keys are the lists of keys in a data directory. They may be read at any time, and changed while
// no one runs on the directory; the next start uses what they are then.
type Keys struct{ dir *dataDir }

// OpenKeys finds the keys of a data directory. A directory that is none is an InputError.
func OpenKeys(path string) (*Keys, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	k := &Keys{&dataDir{path: abs}}
	if _, err := os.Stat(k.dir.pki()); errors.Is(err, fs.ErrNotExist) {
		return nil, &InputError{Flag: "--data-dir", Value: path, Reason: "there are no keys of nephele up", Hint: "name the directory that nephele up was started with"}
	} else if err != nil {
		return nil, err
	}
	return k, nil
}

// SecretsKeys is the name of the list of keys by which Secrets are encrypted.
const SecretsKeys = "encryption"

// The names of the lists of authorities and signing keys, which name their files too.
const (
	ClusterAuthority    = clusterAuthority
	FrontProxyAuthority = frontProxyAuthority
	EtcdAuthority       = etcdAuthority
	WebhookAuthority    = webhookAuthority
	ServiceAccountKey   = serviceAccountKey
)

// KindOf is the kind of the keys called name.
func KindOf(name string) keyring.Kind {
	switch name {
	case SecretsKeys:
		return keyring.Random(encryptionKeySize, "nephele key of Secrets")
	case serviceAccountKey:
		return keyring.Signing()
	default:
		return certs.AuthorityKind(name)
	}
}

// Read reads a list.
func (k *Keys) Read(name string) (keyring.Ring, error) {
	if name == SecretsKeys {
		e := &encryption{path: filepath.Join(k.dir.pki(), encryptionFile)}
		if err := e.read(); err != nil {
			return nil, err
		}
		return e.ring()
	}
	store, err := certs.Open(k.dir.pki(), time.Now)
	if err != nil {
		return nil, err
	}
	ring, err := store.Ring(name, KindOf(name))
	if err == nil && len(ring) == 0 {
		err = errors.New("there is no key yet: nephele up makes it when it starts")
	}
	return ring, err
}

// errShared is why keys are not changed that the others would not know.
var errShared = errors.New("the members of the hub share these keys, and none believes or reads what another one signs or encrypts with a key of its own: " +
	"restore a backup of one member into a new data directory, change the keys there, start it with --peer-listen, and add the others anew")

// Change replaces a list as a whole. It fails while somebody runs on the directory, and for keys
// that other members of a hub share.
func (k *Keys) Change(name string, next func(keyring.Ring) (keyring.Ring, error)) error {
	if shared, err := k.dir.shares(name); err != nil || shared {
		return cmp.Or(err, errShared)
	}
	return Alone(k.dir.path, func() error { return k.change(name, next) })
}

// Alone does something while no one runs on a data directory. It fails if somebody does.
func Alone(path string, do func() error) error {
	dir, err := openDataDir(path, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(), dir.close())
}

func (k *Keys) change(name string, next func(keyring.Ring) (keyring.Ring, error)) error {
	before, err := k.Read(name)
	if err != nil {
		return err
	}
	after, err := next(before)
	if err != nil {
		return err
	}
	if name == SecretsKeys {
		e := &encryption{path: filepath.Join(k.dir.pki(), encryptionFile)}
		if err := e.read(); err != nil {
			return err
		}
		return e.set(after)
	}
	store, err := certs.Open(k.dir.pki(), time.Now)
	if err != nil {
		return err
	}
	return store.SetRing(name, after)
}

// keyNameTime is how the name of a key of Secrets begins: with the time when it was made.
const keyNameTime = "20060102T150405Z"

// keys are the keys that Secrets are written and read with.
func (e *encryption) keys() ([]apiserver.Key, error) {
	if latest, _ := e.latest(); latest == nil {
		return nil, fmt.Errorf("encryption of Secrets: %s was not written by nephele: change it by hand", e.path)
	}
	return e.config.Resources[0].Providers[0].Secretbox.Keys, nil
}

// ring are these keys as a list.
func (e *encryption) ring() (keyring.Ring, error) {
	keys, err := e.keys()
	if err != nil {
		return nil, err
	}
	kind := KindOf(SecretsKeys)
	var out keyring.Ring
	for _, k := range keys {
		material, err := base64.StdEncoding.DecodeString(k.Secret)
		if err != nil {
			return nil, fmt.Errorf("encryption of Secrets: %s: the secret of the key %q is not in base64", e.path, k.Name)
		}
		one, err := kind.Alone(material)
		if err != nil {
			return nil, fmt.Errorf("encryption of Secrets: %s: the key %q: %w", e.path, k.Name, err)
		}
		if len(k.Name) >= len(keyNameTime) {
			one[0].Since, _ = time.Parse(keyNameTime, k.Name[:len(keyNameTime)]) // others have names of other forms
		}
		out = append(out, one[0])
	}
	return out, nil
}

// set makes a list the keys. What else Secrets are read with stays.
func (e *encryption) set(r keyring.Ring) error {
	keys, err := e.keys()
	if err != nil {
		return err
	}
	named := map[string]string{}
	for _, k := range keys {
		named[k.Secret] = k.Name
	}
	var next []apiserver.Key
	for _, k := range r {
		secret := base64.StdEncoding.EncodeToString(k.Material)
		name, ok := named[secret]
		if !ok {
			name = k.Since.UTC().Format(keyNameTime) + "-" + k.ID
		}
		next = append(next, apiserver.Key{Name: name, Secret: secret})
	}
	providers := append([]apiserver.ProviderConfiguration(nil), e.config.Resources[0].Providers...)
	providers[0] = apiserver.ProviderConfiguration{Secretbox: &apiserver.SecretboxConfiguration{Keys: next}}
	return e.write(providers)
}

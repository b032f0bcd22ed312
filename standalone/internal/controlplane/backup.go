package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	etcdrestore "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// DataFormat is how a data directory, and so a backup of it, is laid out.
const DataFormat = dataFormat

const (
	// addressFile has the address of etcd while it runs, for backups.
	addressFile = "etcd-address"
	// snapshotFile is the database in a backup.
	snapshotFile = "etcd.snapshot"
	// backupAttempts bounds how often a backup is begun anew because a key was changed meanwhile.
	backupAttempts = 3
	// snapshotLimit bounds how long the database may take.
	snapshotLimit = 10 * time.Minute
	// restoredRevisions is how far the versions of a restored database are put forward, so that no
	// client has seen a version that is still to come.
	restoredRevisions = 1_000_000_000
)

// keyFolders are the folders of keys and certificates; the second one is that of the API which the
// controller serves.
var keyFolders = []string{"pki", "api-pki"}

// Backup writes what is in a data directory into an empty folder: the database as it is at one
// instant, the keys, and the format. A running process goes on. Without one, a temporary copy of
// the database is started, so that no file of the directory's owner is touched. Logs, the record of
// changes and flows are not in it.
func Backup(ctx context.Context, path, into string) error {
	for range backupAttempts {
		before, err := readKeys(path)
		if err != nil {
			return err
		}
		if err := snapshotOf(ctx, path, filepath.Join(into, snapshotFile)); err != nil {
			return err
		}
		after, err := readKeys(path)
		if err != nil {
			return err
		}
		// A Secret in the database is of no use without the key of that time.
		if before[encryptionKey] != after[encryptionKey] {
			if err := os.Remove(filepath.Join(into, snapshotFile)); err != nil {
				return err
			}
			continue
		}
		for name, content := range after {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(into, name)), 0o700); err != nil {
				return err
			}
			if err := certs.WriteFile(filepath.Join(into, name), []byte(content), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the keys in %s changed %d times while the database was read", path, backupAttempts)
}

var encryptionKey = filepath.Join("pki", encryptionFile)

// readKeys reads the files besides the database, by their names below the data directory.
func readKeys(path string) (map[string]string, error) {
	out := map[string]string{}
	read := func(name string) error {
		raw, err := os.ReadFile(filepath.Join(path, name))
		if err == nil {
			out[name] = string(raw)
		}
		return err
	}
	for _, folder := range keyFolders {
		entries, err := os.ReadDir(filepath.Join(path, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			// What is being written is renamed when it is whole.
			if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), ".tmp") {
				continue
			}
			if err := read(filepath.Join(folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	err := read("format")
	if err == nil && out[encryptionKey] == "" {
		err = errors.New("there is no " + encryptionKey)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no data directory of nephele up: %w", path, err)
	}
	return out, nil
}

// snapshotOf has etcd write its database into a file.
func snapshotOf(ctx context.Context, path, to string) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	dir, err := openDataDir(path, 0)
	var inUse *InputError
	switch {
	case err == nil:
		defer func() { _ = dir.close() }()
		return snapshotStopped(ctx, dir, to)
	case errors.As(err, &inUse) && errors.Is(inUse.Err, errInUse):
	default:
		return err
	}
	address, err := os.ReadFile(filepath.Join(path, addressFile))
	if err != nil {
		return fmt.Errorf("%w, and does not say where its database is (%w): stop it, or ask again when it runs", inUse, err)
	}
	store, err := certs.Open(filepath.Join(path, "pki"), time.Now)
	if err != nil {
		return fmt.Errorf("open the key store: %w", err)
	}
	return snapshotFrom(ctx, strings.TrimSpace(string(address)), store, to)
}

// snapshotStopped starts the database of a data directory that no one uses, for as long as it
// takes.
func snapshotStopped(ctx context.Context, dir *dataDir, to string) (err error) {
	there, err := dir.hasDatabase()
	if err == nil && !there {
		err = fmt.Errorf("%s has no database", dir.path)
	}
	if _, unknown := os.Stat(dir.peers()); err == nil && unknown == nil {
		err = fmt.Errorf("%s is that of one of several, and alone it knows nothing for sure: back up one that runs", dir.path)
	}
	if err != nil {
		return err
	}
	// Files that a member writes when it starts would belong to the user of the backup, often
	// another one than the user of the next process.
	temp, err := os.MkdirTemp(filepath.Dir(to), ".database-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	twin := &dataDir{path: temp}
	if err := errors.Join(os.CopyFS(twin.etcd(), os.DirFS(dir.etcd())), os.CopyFS(twin.pki(), os.DirFS(dir.pki()))); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	store, err := certs.Open(twin.pki(), time.Now)
	if err != nil {
		return fmt.Errorf("open the key store: %w", err)
	}
	creds := &credentials{dir: twin, store: store}
	if err := creds.ensureEtcd(); err != nil {
		return err
	}
	e, err := serveEtcd(ctx, twin.etcd(), creds, nil, zap.NewNop())
	if err != nil {
		return err
	}
	defer e.Close()
	return snapshotFrom(ctx, etcdURL(e), store, to)
}

func snapshotFrom(ctx context.Context, url string, store *certs.Store, to string) error {
	tls := transport.TLSInfo{CertFile: store.CertFile(etcdClientCert), KeyFile: store.KeyFile(etcdClientCert), TrustedCAFile: store.CertFile(etcdAuthority)}
	config, err := tls.ClientConfig()
	if err != nil {
		return fmt.Errorf("credentials of the database: %w", err)
	}
	_, err = snapshot.SaveWithVersion(ctx, zap.NewNop(), clientv3.Config{Endpoints: []string{url}, TLS: config, DialTimeout: 10 * time.Second}, to)
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	return nil
}

// Restore makes a data directory, in a folder that holds what Backup wrote, of it. The folder is of
// no use after an error.
func Restore(path string) error {
	written := filepath.Join(path, snapshotFile)
	if _, err := readKeys(path); err != nil {
		return err
	}
	dir := &dataDir{path: path}
	newer, err := dir.checkFormat()
	if err == nil && newer != "" {
		err = fmt.Errorf("it was written by a newer version of nephele (data format %s, this one knows up to %d)", newer, dataFormat)
	}
	if err != nil {
		return err
	}
	err = etcdrestore.NewV3(zap.NewNop()).Restore(etcdrestore.RestoreConfig{
		SnapshotPath: written, Name: memberName, OutputDataDir: dir.etcd(),
		PeerURLs: []string{peerURL.String()}, InitialCluster: memberName + "=" + peerURL.String(), InitialClusterToken: "etcd-cluster",
		RevisionBump: restoredRevisions, MarkCompacted: true,
	})
	if err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	return os.Remove(written)
}

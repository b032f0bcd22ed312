package credential

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is a kubeconfig for a host, by which it proves itself to a server.
func Kubeconfig(host Host, server *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) ([]byte, error) {
	out, name := clientcmdapi.NewConfig(), host.Namespace+"-"+host.Name
	out.Clusters["nephele"], out.AuthInfos[name] = server, user
	out.Contexts[name] = &clientcmdapi.Context{Cluster: "nephele", AuthInfo: name, Namespace: host.Namespace}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}

// WritePrivate puts a whole new file, for its owner only, in the place of an old one.
func WritePrivate(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

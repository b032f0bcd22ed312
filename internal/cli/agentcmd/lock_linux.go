package agentcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockFile is in the directory of the state. The process that holds its lock is the agent of the
// host.
const lockFile = "lock"

// lockState takes the lock of a directory for the state of an agent, for as long as the process
// lives or until it is given back. It fails if another agent has it, and says which.
func lockState(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock the state of the agent: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) { // the table still has one owner
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the state of the agent: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		who, _ := io.ReadAll(io.LimitReader(f, 20))
		_ = f.Close()
		if n, err := strconv.Atoi(strings.TrimSpace(string(who))); err == nil {
			return nil, fmt.Errorf("an agent is running on this host already, as process %d", n)
		}
		return nil, errors.New("an agent is running on this host already")
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
		if errors.Is(err, syscall.ENOSPC) { // the lock is there without a number
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the state of the agent: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

//go:build linux

package aws

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// moto is a server of https://docs.getmoto.org. It keeps the state of AWS
// accounts.
type moto struct {
	url     string
	said    words
	command *exec.Cmd
	ended   chan error
	sample  *kept // moto's state of the unchanged sample
}

// words collects a program's output.
type words struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (w *words) Write(text []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.text.Write(text)
}

// last returns the end of the output.
func (w *words) last() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	said := w.text.String()
	return said[max(0, len(said)-500):]
}

// patience is how long moto may take to start. Reading its Python code takes a
// while on a machine under load.
const patience = 2 * time.Minute

// started is the one server of a test process. The tests run one after the
// other.
var started = sync.OnceValues(func() (*moto, error) {
	if root := os.Getenv(alone); root != "" {
		return startMoto(root)
	}
	root, err := base.Moto(context.Background(), os.Stderr)
	if err != nil {
		return nil, err
	}
	return startMoto(root)
})

// startMoto runs moto in its root and returns when it serves requests. moto
// ends with this process.
func startMoto(root string) (*moto, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	m := &moto{url: "http://" + address.String(), ended: make(chan error, 1)}
	m.command = exec.Command("/usr/bin/python3", "/usr/bin/moto_server", "-H", "127.0.0.1", "-p", fmt.Sprint(address.Port))
	m.command.Err = nil // the program is inside the root
	m.command.Dir = "/"
	m.command.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=/root", "PYTHONDONTWRITEBYTECODE=1",
		"MOTO_IAM_LOAD_MANAGED_POLICIES=true", "MOTO_EC2_LOAD_DEFAULT_AMIS=false",
		"MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION=true", "MOTO_ENABLE_KEYPAIR_VALIDATION=true",
	}
	m.command.Stdout, m.command.Stderr = &m.said, &m.said
	m.command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	up := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the thread that started moto ends.
		runtime.LockOSThread()
		err := m.command.Start()
		up <- err
		if err == nil {
			m.ended <- m.command.Wait()
		}
	}()
	if err := <-up; err != nil {
		return nil, fmt.Errorf("starting moto: %w", err)
	}
	return m, m.wait()
}

// wait polls until moto serves requests.
func (m *moto) wait() error {
	for deadline := time.Now().Add(patience); ; {
		if answer, err := http.Get(m.url + "/moto-api/"); err == nil {
			return answer.Body.Close()
		}
		select {
		case err := <-m.ended:
			return fmt.Errorf("starting moto: moto ended (%v): %s", err, m.said.last())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("starting moto: no response after %s", patience)
		}
	}
}

// reset deletes moto's whole state.
func (m *moto) reset() error {
	m.sample = nil
	answer, err := http.Post(m.url+"/moto-api/reset", "", nil)
	if err != nil {
		return fmt.Errorf("resetting moto: %w", err)
	}
	return answer.Body.Close()
}

package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// Etcd is the store of all clusters of a lab; each has a prefix of its own.
type Etcd struct {
	daemon *daemon
	url    string
}

// StartEtcd starts etcd on the lab's loopback, with its data and log in folder.
func StartEtcd(lab *machine.Lab, program, folder string) (*Etcd, error) {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	d, err := start(lab, folder, "etcd", program,
		"--data-dir="+filepath.Join(folder, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	return &Etcd{d, client}, err
}

// Close ends it.
func (e *Etcd) Close() error { return e.daemon.stop() }

// Programs are the paths of a control plane's programs.
type Programs struct{ APIServer, ControllerManager, Scheduler, Kubectl string }

// ClusterConfig describes a cluster.
type ClusterConfig struct {
	Name string
	// Role is the role of the nodes that the cluster lets in.
	Role string
	// Address is the API server's, which is added to the lab.
	Address    netip.Addr
	Programs   Programs
	Etcd       *Etcd
	Identities *Identities
	// Folder takes keys and logs.
	Folder string
	// Log takes what the controllers have to say.
	Log io.Writer
}

// Cluster is a running control plane. It approves the serving certificates of
// its nodes and initializes them until it is closed.
type Cluster struct {
	Name, Role    string
	Authenticator *Authenticator

	config    ClusterConfig
	lab       *machine.Lab
	authority *authority
	http      *http.Client
	daemons   []*daemon
	stop      func()
	stopped   chan struct{}
}

// ServiceCIDR is the network of every cluster's services.
const ServiceCIDR = "172.20.0.0/16"

// Endpoint is the API server's address.
func (c *Cluster) Endpoint() string { return "https://" + c.config.Address.String() }

// CA is the PEM of the certificate authority.
func (c *Cluster) CA() []byte { return c.authority.PEM }

// StartCluster starts a control plane and returns when its API server is ready
// and the kubelets' namespaces have their service account.
func StartCluster(ctx context.Context, lab *machine.Lab, config ClusterConfig) (*Cluster, error) {
	c := &Cluster{
		Name: config.Name, Role: config.Role, config: config, lab: lab,
		Authenticator: &Authenticator{Cluster: config.Name, Identities: config.Identities, Role: config.Role, Now: time.Now},
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the cluster %s: %w", c.Name, err), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.issue(); err != nil {
		return err
	}
	if err := c.lab.AddAddress(ctx, c.config.Address); err != nil {
		return err
	}
	webhook, err := c.serveAuthenticator(ctx)
	if err != nil {
		return err
	}
	if err := c.daemon("kube-apiserver", c.config.Programs.APIServer, c.apiServer(webhook)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("it is not ready within two minutes"))
	defer cancel()
	if err := c.await(ctx, "/readyz"); err != nil {
		return err
	}
	for name, program := range map[string]string{
		"kube-controller-manager": c.config.Programs.ControllerManager, "kube-scheduler": c.config.Programs.Scheduler,
	} {
		args := []string{"--leader-elect=false", "--secure-port=0", "--kubeconfig=" + c.authority.path(name+".kubeconfig")}
		if name == "kube-controller-manager" {
			args = append(args, c.controllerManager()...)
		}
		if err := c.daemon(name, program, args); err != nil {
			return err
		}
	}
	controllers, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop, c.stopped = stop, make(chan struct{})
	go func() {
		defer close(c.stopped)
		c.control(controllers)
	}()
	// Pods are refused in a namespace without one.
	return c.await(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
}

// issue makes the certificate authority and whatever it must have signed.
func (c *Cluster) issue() (err error) {
	if c.authority, err = newAuthority(c.config.Folder, c.Name); err != nil {
		return err
	}
	masters := []string{"system:masters"}
	service := netip.MustParsePrefix(ServiceCIDR).Addr().Next()
	for _, one := range []struct {
		file, user string
		groups     []string
		addresses  []net.IP
	}{
		{"kube-apiserver", "kube-apiserver", nil, []net.IP{c.config.Address.AsSlice(), service.AsSlice()}},
		{"kubelet-client", "kube-apiserver-kubelet-client", masters, nil},
		{"kube-controller-manager", "system:kube-controller-manager", nil, nil},
		{"kube-scheduler", "system:kube-scheduler", nil, nil},
		{"service-accounts", "service-accounts", nil, nil},
		{"admin", "kubernetes-admin", masters, nil},
	} {
		if err := c.authority.issue(one.file, one.user, one.groups, one.addresses...); err != nil {
			return err
		}
		if err := c.authority.kubeconfig(one.file, c.Endpoint()); err != nil {
			return err
		}
	}
	config, err := c.authority.client("admin")
	if err != nil {
		return err
	}
	c.http = &http.Client{Transport: c.transport(config), Timeout: 20 * time.Second}
	return nil
}

// transport reaches the API server, which is in the lab.
func (c *Cluster) transport(config *tls.Config) *http.Transport {
	return &http.Transport{TLSClientConfig: config, DialContext: c.lab.Dial, ForceAttemptHTTP2: true}
}

// serveAuthenticator serves the webhook and writes the API server's way to it.
func (c *Cluster) serveAuthenticator(ctx context.Context) (kubeconfig string, err error) {
	listener, err := c.lab.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: c.Authenticator}
	go func() { _ = server.Serve(listener) }() // it ends with the lab's last socket
	context.AfterFunc(ctx, func() { _ = server.Close() })
	kubeconfig = c.authority.path("authenticator.kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"clusters": [{"name": "c", "cluster": {"server": "http://%s"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}
`, listener.Addr())
	return kubeconfig, os.WriteFile(kubeconfig, []byte(text), 0o600)
}

func (c *Cluster) daemon(name, program string, args []string) error {
	d, err := start(c.lab, c.config.Folder, name, program, args...)
	if err == nil {
		c.daemons = append(c.daemons, d)
	}
	return err
}

func (c *Cluster) apiServer(webhook string) []string {
	a := c.authority
	return []string{
		"--bind-address=" + c.config.Address.String(), "--advertise-address=" + c.config.Address.String(), "--secure-port=443",
		"--etcd-servers=" + c.config.Etcd.url, "--etcd-prefix=/" + c.Name,
		"--service-cluster-ip-range=" + ServiceCIDR,
		"--tls-cert-file=" + a.path("kube-apiserver.crt"), "--tls-private-key-file=" + a.path("kube-apiserver.key"),
		"--client-ca-file=" + a.path("ca.crt"),
		"--kubelet-client-certificate=" + a.path("kubelet-client.crt"), "--kubelet-client-key=" + a.path("kubelet-client.key"),
		"--kubelet-certificate-authority=" + a.path("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=" + c.Endpoint(),
		"--service-account-key-file=" + a.path("service-accounts.crt"), "--service-account-signing-key-file=" + a.path("service-accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		// The answers are not kept: a test changes who an instance is.
		"--authentication-token-webhook-config-file=" + webhook, "--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl=1s",
		"--allow-privileged=true", "--profiling=false",
	}
}

// controllerManager is without --use-service-account-credentials unable to sign
// certificates: the signer would act as nobody who may.
func (c *Cluster) controllerManager() []string {
	a := c.authority
	return []string{
		"--use-service-account-credentials=true", "--service-account-private-key-file=" + a.path("service-accounts.key"),
		"--root-ca-file=" + a.path("ca.crt"),
		"--cluster-signing-cert-file=" + a.path("ca.crt"), "--cluster-signing-key-file=" + a.path("ca.key"),
		"--cluster-name=" + c.Name, "--profiling=false",
	}
}

// await waits until a path of the API can be read.
func (c *Cluster) await(ctx context.Context, path string) error {
	return Poll(ctx, func() error {
		if err := c.Running(); err != nil {
			return hopeless{err}
		}
		return c.Call(ctx, http.MethodGet, path, nil, nil)
	})
}

// Running says which of the control plane's programs has ended.
func (c *Cluster) Running() error {
	var ended []error
	for _, d := range append(slices.Clone(c.daemons), c.config.Etcd.daemon) {
		ended = append(ended, d.ended())
	}
	return errors.Join(ended...)
}

// StatusError is the API server's refusal.
type StatusError struct {
	Code          int
	Method, Path  string
	Reason, Words string
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Code, e.Reason, e.Words)
}

// Call calls the API as a cluster administrator. A body is sent as JSON, for
// PATCH as a merge patch; the answer is decoded into a pointer, unless nil.
func (c *Cluster) Call(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Endpoint()+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		var status struct{ Reason, Message string }
		if json.Unmarshal(text, &status) != nil {
			status.Message = strings.TrimSpace(string(text))
		}
		return &StatusError{response.StatusCode, method, path, status.Reason, status.Message}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Kubectl runs kubectl as a cluster administrator and returns what it printed,
// errors included.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := c.lab.Command(ctx, c.config.Programs.Kubectl, append([]string{"--kubeconfig=" + c.authority.path("admin.kubeconfig")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(c.config.Folder, "kubectl"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

// Shell runs a script as a cluster administrator, whose kubectl is this cluster's,
// and returns what it printed, errors included.
func (c *Cluster) Shell(ctx context.Context, script string) (string, error) {
	cmd := c.lab.Command(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(c.config.Folder, "kubectl"), "KUBECONFIG="+c.authority.path("admin.kubeconfig"),
		"PATH="+filepath.Dir(c.config.Programs.Kubectl)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Close ends the control plane and waits until it is gone. Its logs stay.
func (c *Cluster) Close() error {
	if c.stop != nil {
		c.stop()
		<-c.stopped
	}
	var failures []error
	for _, d := range slices.Backward(c.daemons) {
		failures = append(failures, d.stop())
	}
	return errors.Join(failures...)
}

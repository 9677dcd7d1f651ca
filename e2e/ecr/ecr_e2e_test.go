//go:build e2e

package ecr

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/supply"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

const (
	tagged    = host + "/team/app:1.2"
	password  = aws.RegistryPassword
	layerSize = 20 << 20
	layers    = 2
)

// registry runs Debian's registry with one image until the test ends. It
// returns the image's digest.
func registry(t *testing.T) (digest string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	certificate, key := testkit.Certificate(t, x509.Certificate{DNSNames: []string{host}, IsCA: true})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	testkit.Write(t, filepath.Join(folder, "ca.pem"), string(certificate))
	private = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	testkit.Write(t, filepath.Join(folder, "key.pem"), string(private))
	hashed, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	users, config := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "config.yml")
	testkit.Write(t, users, fmt.Sprintf("AWS:%s\n", hashed))
	address := free(t)
	testkit.Write(t, config, fmt.Sprintf(`version: 0.1
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %q, tls: {certificate: %s, key: %s}}
auth: {htpasswd: {realm: ecr, path: %s}}
`, t.TempDir(), address, filepath.Join(folder, "ca.pem"), filepath.Join(folder, "key.pem"), users))
	ctx, stop := context.WithCancel(context.Background())
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, os.Getenv(registryProgram), "serve", config)
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	way.set(-1)
	way.to.Store(&address)
	require.Eventually(t, func() bool {
		out, err := http.Get("https://" + host + "/v2/")
		return err == nil && out.Body.Close() == nil && out.StatusCode == http.StatusUnauthorized
	}, time.Minute, 50*time.Millisecond, "the registry serves")
	one := image(t)
	tag, err := name.NewTag(tagged)
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, one, remote.WithAuth(&authn.Basic{Username: "AWS", Password: password})))
	d, err := one.Digest()
	require.NoError(t, err)
	return d.String()
}

// free returns an unused address.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func image(t *testing.T) v1.Image {
	t.Helper()
	bare, err := random.Image(layerSize, layers)
	require.NoError(t, err)
	config, err := bare.ConfigFile()
	require.NoError(t, err)
	one, err := mutate.ConfigFile(bare, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: config.RootFS})
	require.NoError(t, err)
	return one
}

// world returns an account to which ECR gives the registry's password.
func world(t *testing.T) *aws.World {
	t.Helper()
	w := aws.New(t)
	w.Serve()
	return w
}

// store returns the Packer host's image store, as the plugin makes it.
func store(t *testing.T, image string) supply.Store {
	t.Helper()
	patience := asset.Patience{Attempts: 2, Wait: time.Millisecond, Stall: time.Minute}
	return supply.Store{
		Cache: asset.NewCache(t.TempDir(), asset.NewFetcher(patience)), Arch: "amd64",
		Images: []string{image}, Login: awsapi.RegistryLogin(awsapi.Options{}),
	}
}

// take pulls an image as a machine does.
func take(t *testing.T, s supply.Store) error {
	t.Helper()
	got, err := s.Supply(t.Context(), asset.Wanted{Image: s.Images[0], As: tagged})
	if err != nil {
		return err
	}
	text, err := io.ReadAll(got)
	require.NoError(t, err)
	require.NoError(t, got.Close())
	assert.Equal(t, manifest.Sum(text), got.SHA256)
	assert.Greater(t, len(text), layers*layerSize)
	return nil
}

func TestPullImageFromECR(t *testing.T) {
	digest := registry(t)
	pinned := tagged + "@" + digest
	t.Run("pulled with AWS' credentials", func(t *testing.T) {
		w := world(t)
		require.NoError(t, take(t, store(t, pinned)))
		assert.Equal(t, 1, w.Count()["ecr:GetAuthorizationToken"])
	})
	t.Run("a connection that breaks", func(t *testing.T) {
		world(t)
		s := store(t, pinned)
		way.set(layerSize + layerSize/2)
		err := take(t, s)
		require.ErrorContains(t, err, "pulling the image "+pinned+": ")
		first := way.bytes.Load()
		way.set(-1)
		require.NoError(t, take(t, s))
		t.Logf("%d bytes came before, %d after", first, way.bytes.Load())
		assert.Less(t, way.bytes.Load(), int64(layers*layerSize-layerSize), "a resumed download must not repeat bytes")
	})
	t.Run("the user's own login comes first", func(t *testing.T) {
		w := world(t)
		config := filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json")
		testkit.Write(t, config, fmt.Sprintf(`{"auths":{%q:{"username":"AWS","password":"an old one"}}}`, host))
		require.ErrorContains(t, take(t, store(t, pinned)), "the registry refuses access: ")
		assert.Zero(t, w.Count()["ecr:GetAuthorizationToken"])
		require.NoError(t, os.Remove(config))
	})
	t.Run("a permission that is missing", func(t *testing.T) {
		w := world(t)
		w.Deny("ecr:GetAuthorizationToken")
		require.ErrorContains(t, take(t, store(t, pinned)), "pulling the image "+pinned+": logging in to "+host+": the permission ecr:GetAuthorizationToken is missing: ")
	})
	t.Run("eksnode lock", func(t *testing.T) {
		w := world(t)
		file := filepath.Join(t.TempDir(), "eksnode.lock.json")
		out := testkit.Run(t, os.Getenv(eksnodeProgram), "lock", "--file", file, "--images", tagged)
		assert.Contains(t, out, "image "+tagged+", "+digest)
		assert.Equal(t, 1, w.Count()["ecr:GetAuthorizationToken"])
	})
}

// These environment variables name folders that are prepared while the network
// is available: the registry, and the command.
const (
	registryProgram = "EKSNODE_TEST_REGISTRY"
	eksnodeProgram  = "EKSNODE_TEST_COMMAND"
)

// TestMain also makes the proxy, because Go reads the environment variables of proxy and
// certificate only once.
func TestMain(m *testing.M) {
	if os.Getenv(registryProgram) == "" {
		folder, err := os.MkdirTemp("", "eksnode-ecr-")
		if err == nil {
			err = build(context.Background(), folder)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		code := aws.Alone(m.Run)
		_ = os.RemoveAll(folder) // the folder is temporary
		os.Exit(code)
	}
	os.Exit(aws.Alone(func() int {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

// build unpacks Debian's registry. It does not install the package, because
// installing would start the service.
func build(ctx context.Context, folder string) error {
	registry, command := filepath.Join(folder, "registry"), filepath.Join(folder, "eksnode")
	script := `set -eu
chmod 0755 "$1"; cd "$1"
apt-get download -qq docker-registry 2>/dev/null || { apt-get update -qq; apt-get download -qq docker-registry; }
dpkg -x docker-registry_*.deb unpacked
mv unpacked/usr/bin/docker-registry registry`
	for _, argv := range [][]string{
		{"sh", "-c", script, "sh", folder},
		{"go", "build", "-o", command, "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", argv, err, out)
		}
	}
	for name, value := range map[string]string{registryProgram: registry, eksnodeProgram: command} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// host is the registry's name.
const host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"

// line is a proxy to the registry. It breaks every connection after budget
// bytes from the registry; a negative budget is no limit.
type line struct {
	to     atomic.Pointer[string]
	bytes  atomic.Int64
	budget atomic.Int64
}

// way is the proxy of this process and its children.
var way = &line{}

// folder has the certificate, its key, and the registry's storage.
var folder string

// prepare makes the proxy, and points Go's HTTP client to it and to the certificate.
func prepare() error {
	var err error
	if folder, err = os.MkdirTemp(filepath.Dir(os.Getenv(registryProgram)), "run-"); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	way.budget.Store(-1)
	go func() { _ = http.Serve(listener, way) }() // until the process ends
	for name, value := range map[string]string{
		"SSL_CERT_FILE": filepath.Join(folder, "ca.pem"), "HTTPS_PROXY": "http://" + listener.Addr().String(),
		"HTTP_PROXY": "", "NO_PROXY": "", "no_proxy": "", "https_proxy": "", "AWS_CA_BUNDLE": "", "XDG_CACHE_HOME": folder,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP tunnels to the registry only.
func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := l.to.Load()
	if r.Method != http.MethodConnect || r.Host != host+":443" || to == nil {
		http.Error(w, fmt.Sprintf("%s %s: nothing is there", r.Method, r.Host), http.StatusBadGateway)
		return
	}
	testkit.Tunnel(w, *to, l.copy)
}

// copy forwards the registry's bytes within the budget.
func (l *line) copy(here io.Writer, there io.Reader) {
	buffer := [4 << 10]byte{}
	for {
		n, err := there.Read(buffer[:])
		if budget := l.budget.Load(); budget >= 0 && l.bytes.Load()+int64(n) > budget {
			return
		}
		l.bytes.Add(int64(n))
		if _, writeErr := here.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// set resets the byte count and sets a budget.
func (l *line) set(budget int64) {
	l.bytes.Store(0)
	l.budget.Store(budget)
}

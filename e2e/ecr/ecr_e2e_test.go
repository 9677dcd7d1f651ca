//go:build e2e

package ecr

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/supply"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
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
	hashed, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	users, config := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "config.yml")
	require.NoError(t, os.WriteFile(users, fmt.Appendf(nil, "AWS:%s\n", hashed), 0o600))
	address := free(t)
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `version: 0.1
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %q, tls: {certificate: %s, key: %s}}
auth: {htpasswd: {realm: ecr, path: %s}}
`, t.TempDir(), address, filepath.Join(folder, "ca.pem"), filepath.Join(folder, "key.pem"), users), 0o600))
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
		config := fmt.Sprintf(`{"auths":{%q:{"username":"AWS","password":"an old one"}}}`, host)
		require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600))
		require.ErrorContains(t, take(t, store(t, pinned)), "the registry refuses access: ")
		assert.Zero(t, w.Count()["ecr:GetAuthorizationToken"])
		require.NoError(t, os.Remove(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json")))
	})
	t.Run("a permission that is missing", func(t *testing.T) {
		w := world(t)
		w.Deny("ecr:GetAuthorizationToken")
		require.ErrorContains(t, take(t, store(t, pinned)), "pulling the image "+pinned+": logging in to "+host+": the permission ecr:GetAuthorizationToken is missing: ")
	})
	t.Run("eksnode lock", func(t *testing.T) {
		w := world(t)
		file := filepath.Join(t.TempDir(), "eksnode.lock.json")
		out, err := exec.CommandContext(t.Context(), os.Getenv(eksnodeProgram), "lock", "--file", file, "--images", tagged).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "image "+tagged+", "+digest)
		assert.Equal(t, 1, w.Count()["ecr:GetAuthorizationToken"])
	})
}

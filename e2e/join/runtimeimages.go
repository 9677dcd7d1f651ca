package join

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// registryPort is where the images that critest asks for are served in the lab.
const registryPort = "5000"

// RegistryHosts is a script that has containerd ask the lab for what public
// registries have.
func RegistryHosts(lab *machine.Lab) string {
	return fmt.Sprintf("mkdir -p /etc/containerd/certs.d/_default\nprintf '[host.\"http://%s\"]\\ncapabilities = [\"pull\", \"resolve\"]\\n' > /etc/containerd/certs.d/_default/hosts.toml\n",
		net.JoinHostPort(lab.HostAddress(), registryPort))
}

// runtimeImage is an image that critest asks for, under every name that it has
// for it.
type runtimeImage struct {
	names  []string
	config v1.Config
}

// webServer is a server that calls itself as nginx does.
func webServer(port string) v1.Config {
	return v1.Config{Entrypoint: []string{"/bin/nginx", "master process"}, Env: []string{"PATH=/bin", "PORT=" + port}}
}

func user(name string) v1.Config { return v1.Config{User: name} }

// runtimeImages are those of critest 1.36, of pkg/validate and pkg/framework.
func runtimeImages() []runtimeImage {
	const own, kubernetes = "k8s-staging-cri-tools/", "e2e-test-images/"
	var waits v1.Config
	return []runtimeImage{
		{[]string{kubernetes + "busybox:1.29-2"}, waits},
		{[]string{kubernetes + "nginx:1.14-2", kubernetes + "httpd:2.4.39-4"}, webServer("80")},
		{[]string{own + "hostnet-nginx-" + runtime.GOARCH + ":latest"}, webServer("12003")},
		{[]string{"pause:3.9"}, waits},
		{[]string{kubernetes + "nonewprivs:1.3"}, v1.Config{Entrypoint: []string{"/bin/euid"}}},
		{[]string{own + "test-image-latest:latest"}, waits},
		{[]string{own + "test-image-tag:test"}, waits},
		{[]string{own + "test-image-tag:all"}, waits},
		{[]string{own + "test-image-1:latest"}, waits},
		{[]string{own + "test-image-2:latest"}, waits},
		{[]string{own + "test-image-3:latest"}, waits},
		{[]string{own + "test-image-tags:1", own + "test-image-tags:2", own + "test-image-tags:3"}, waits},
		{[]string{own + "test-image-user-uid:latest"}, user("1002")},
		{[]string{own + "test-image-user-username:latest"}, user("www-data")},
		{[]string{own + "test-image-user-uid-group:latest"}, user("1003:users")},
		{[]string{own + "test-image-user-username-group:latest"}, user("www-data:users")},
		{[]string{own + "test-image-predefined-group:latest"}, user("1000")},
	}
}

// Scripts for what upstream's images have and busybox has not.
const (
	pgrepScript = "#!/bin/sh\nexec pidof \"$1\"\n"
	ipcsScript  = "#!/bin/sh\nexec cat /proc/sysvipc/shm\n"
	nginxScript = "#!/bin/sh\nmkdir -p /var/run\necho $$ > /var/run/nginx.pid\necho serving as httpd\nhttpd -f -p \"$PORT\" -h /www &\nwait\n"
)

// euid builds the program that tells its effective user.
func euid(ctx context.Context, folder string) ([]byte, error) {
	path := filepath.Join(folder, "euid")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "github.com/eksnode/packer-plugin-eksnode/e2e/join/euid")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building euid: %w: %s", err, out)
	}
	return os.ReadFile(path)
}

// runtimeLayer is the content of all those images: busybox with all its applets,
// as upstream's image has them.
func runtimeLayer(ctx context.Context, busybox string, euid []byte) (v1.Layer, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	names, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its applets: %w", busybox, err)
	}
	var files layout
	for _, text := range []struct{ path, content string }{
		{"etc/passwd", "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\ndefault-user:x:1000:1000::/:/bin/sh\n"},
		{"etc/group", "root:x:0:\nwww-data:x:33:\nusers:x:100:\nnogroup:x:65534:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n"},
		{"www/index.html", "<p>It works.</p>\n"},
		{"bin/pgrep", pgrepScript}, {"bin/ipcs", ipcsScript}, {"bin/nginx", nginxScript},
	} {
		files.add(text.path, []byte(text.content), 0o755)
	}
	files.add("bin/busybox", program, 0o755)
	files.add("bin/euid", euid, 0o4755)
	for _, name := range strings.Fields(string(names)) {
		if name != "busybox" { // hard links: what hides one must not hide all
			files.entry(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeLink, Linkname: "bin/busybox", Mode: 0o755})
		}
	}
	files.entry(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777})
	packed, err := files.tar()
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil })
}

// ServeRuntimeImages serves what critest asks public registries for, made of the
// host's busybox, in a lab until that is closed. The folder takes what is built
// for it.
func ServeRuntimeImages(ctx context.Context, lab *machine.Lab, busybox, folder string) error {
	address := net.JoinHostPort(lab.HostAddress(), registryPort)
	if err := lab.Serve(ctx, address, registry.New(registry.Logger(log.New(io.Discard, "", 0)))); err != nil {
		return err
	}
	user, err := euid(ctx, folder)
	if err != nil {
		return fmt.Errorf("making images for critest: %w", err)
	}
	layer, err := runtimeLayer(ctx, busybox, user)
	if err != nil {
		return fmt.Errorf("making images for critest: %w", err)
	}
	reach := remote.WithTransport(&http.Transport{DialContext: lab.Dial})
	for _, one := range runtimeImages() {
		image, err := one.make(layer)
		if err != nil {
			return fmt.Errorf("making the image %s: %w", one.names[0], err)
		}
		for _, to := range one.names {
			ref, err := name.ParseReference(address+"/"+to, name.Insecure)
			if err != nil {
				return err
			}
			if err := remote.Write(ref, image, reach, remote.WithContext(ctx)); err != nil {
				return fmt.Errorf("serving the image %s: %w", to, err)
			}
		}
	}
	return nil
}

// make makes the image. A name is in its configuration, so that two images of
// the same layer stay two.
func (r runtimeImage) make(layer v1.Layer) (v1.Image, error) {
	config := r.config
	if config.Entrypoint == nil {
		config.Cmd, config.Env = idle, []string{"PATH=/bin"}
	}
	config.Labels = map[string]string{"org.opencontainers.image.ref.name": r.names[0]}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(image, file)
}

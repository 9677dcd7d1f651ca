//go:build e2e && full

package join_test

import (
	"archive/tar"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// runtimeImage is an image that critest needs, with all its names.
type runtimeImage struct {
	names  []string
	config v1.Config
}

// webServer is a server with nginx's process names.
func webServer(port string) v1.Config {
	return v1.Config{Entrypoint: []string{"/bin/nginx", "master process"}, Env: []string{"PATH=/bin", "PORT=" + port}}
}

func user(name string) v1.Config { return v1.Config{User: name, Cmd: idle.Entrypoint, Env: idle.Env} }

// runtimeImages returns the images of critest 1.36, from pkg/validate and
// pkg/framework.
func runtimeImages() []runtimeImage {
	const own, tests = "k8s-staging-cri-tools/", "e2e-test-images/"
	waits := v1.Config{Cmd: idle.Entrypoint, Env: idle.Env}
	return []runtimeImage{
		{[]string{tests + "busybox:1.29-2"}, waits},
		{[]string{tests + "nginx:1.14-2", tests + "httpd:2.4.39-4"}, webServer("80")},
		{[]string{own + "hostnet-nginx-" + runtime.GOARCH + ":latest"}, webServer("12003")},
		{[]string{"pause:3.9"}, waits},
		{[]string{tests + "nonewprivs:1.3"}, v1.Config{Entrypoint: []string{"/bin/user"}}},
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

// Programs of upstream's images that busybox lacks.
var runtimePrograms = map[string]string{
	"pgrep": "exec pidof \"$1\"", "ipcs": "exec cat /proc/sysvipc/shm",
	"nginx": "mkdir -p /var/run\necho $$ > /var/run/nginx.pid\necho serving as httpd\nhttpd -f -p \"$PORT\" -h /www &\nwait",
}

// tellsUser is a program with the set-user-ID bit.
const tellsUser = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"Effective uid: %d\\n\", geteuid()); }\n"

// runtimeFiles returns the content of all those images: busybox with all its
// applets, as in upstream's image.
func (w *world) runtimeFiles() []lab.File {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "user")
	compile := exec.CommandContext(w.Ctx, "gcc", "-static", "-x", "c", "-o", path, "-")
	compile.Stdin = strings.NewReader(tellsUser)
	out, err := compile.CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	content, err := os.ReadFile(path)
	require.NoError(w.t, err)
	user := lab.Program("bin/user", content)
	user.Mode = 0o4755
	files := []lab.File{
		user, {Header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
		lab.Program("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\ndefault-user:x:1000:1000::/:/bin/sh\n")),
		lab.Program("etc/group", []byte("root:x:0:\nwww-data:x:33:\nusers:x:100:\nnogroup:x:65534:\ndefault-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n")),
		lab.Program("www/index.html", []byte("<p>It works.</p>\n")),
	}
	for program, script := range runtimePrograms {
		files = append(files, lab.Program("bin/"+program, []byte("#!/bin/sh\n"+script+"\n")))
	}
	applets, err := exec.CommandContext(w.Ctx, "/bin/busybox", "--list").Output()
	require.NoError(w.t, err)
	var names []string
	for applet := range strings.FieldsSeq(string(applets)) {
		if _, ours := runtimePrograms[applet]; !ours && applet != "busybox" {
			names = append(names, applet)
		}
	}
	return append(files, lab.Busybox(w.t, names...)...)
}

// serveRuntimeImages serves the images that critest needs in the lab. It
// returns a script that redirects containerd from the public registries to the
// lab.
func (w *world) serveRuntimeImages() (script string) {
	w.t.Helper()
	address := w.Port("5000")
	require.NoError(w.t, w.Serve(w.Ctx, address, registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	files := w.runtimeFiles()
	for _, one := range runtimeImages() {
		one.config.Labels = map[string]string{"org.opencontainers.image.ref.name": one.names[0]} // without it, containerd would merge two images with the same layer
		image := lab.Image(w.t, one.config, files...)
		for _, to := range one.names {
			ref, err := name.ParseReference(address+"/"+to, name.Insecure)
			require.NoError(w.t, err)
			require.NoError(w.t, remote.Write(ref, image, remote.WithTransport(&http.Transport{DialContext: w.Dial}), remote.WithContext(w.Ctx)))
		}
	}
	return fmt.Sprintf("mkdir -p /etc/containerd/certs.d/_default\nprintf '[host.\"http://%s\"]\\ncapabilities = [\"pull\", \"resolve\"]\\n' > /etc/containerd/certs.d/_default/hosts.toml\n", address)
}

package join

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
)

// BusyboxImage is what pods run.
const BusyboxImage = "registry.eksnode.test/busybox:1"

// PauseImage is what the instances' containerd asks EKS's registry for.
func PauseImage() string {
	return "602401143452.dkr.ecr." + region + ".amazonaws.com/eks/pause:" + arguments.New().PauseVersion
}

// idle waits for ever, and is no sleep: checks look for processes of that name.
var idle = []string{"/bin/tail", "-f", "/dev/null"}

// applets are the names by which pods call the program.
var applets = []string{"sh", "sleep", "cat", "cp", "echo", "true", "ls", "grep", "wget", "hostname", "tail"}

// Images is an OCI layout, for `ctr images import -`, with busybox, a static
// program of the host, under both names. The same program gives the same bytes.
func Images(busybox string) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, fmt.Errorf("making the pods' images: %w", err)
	}
	var layer layout
	layer.add("bin/busybox", program, 0o755)
	for _, name := range applets {
		layer.link("bin/"+name, "busybox")
	}
	content, err := layer.tar()
	if err != nil {
		return nil, fmt.Errorf("making the pods' images: %w", err)
	}
	var files layout
	files.add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
	var manifests []any
	for _, name := range []string{PauseImage(), BusyboxImage} {
		manifest, err := files.image(name, content)
		if err != nil {
			return nil, fmt.Errorf("making the image %s: %w", name, err)
		}
		manifests = append(manifests, manifest)
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": manifests})
	if err != nil {
		return nil, fmt.Errorf("making the pods' images: %w", err)
	}
	files.add("index.json", index, 0o644)
	return files.tar()
}

// layout collects the files of an archive, each name once.
type layout struct {
	headers []tar.Header
	content [][]byte
}

func (l *layout) add(name string, content []byte, mode int64) {
	for _, h := range l.headers {
		if h.Name == name {
			return
		}
	}
	l.headers = append(l.headers, tar.Header{Name: name, Size: int64(len(content)), Mode: mode})
	l.content = append(l.content, content)
}

func (l *layout) link(name, target string) {
	l.entry(tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777})
}

// entry adds what has no content.
func (l *layout) entry(header tar.Header) {
	l.headers = append(l.headers, header)
	l.content = append(l.content, nil)
}

func (l *layout) tar() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range l.headers {
		if err := w.WriteHeader(&l.headers[i]); err != nil {
			return nil, err
		}
		if _, err := w.Write(l.content[i]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// blob adds content under its digest and describes it.
func (l *layout) blob(kind string, content []byte) map[string]any {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	l.add("blobs/sha256/"+digest, content, 0o644)
	return map[string]any{"mediaType": kind, "digest": "sha256:" + digest, "size": len(content)}
}

// image adds an image of one layer and describes its manifest. Left alone it
// waits, which is all that a pause image does. The name is in its
// configuration, so that two images of the same layer stay two.
func (l *layout) image(name string, layer []byte) (map[string]any, error) {
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": idle, "Env": []string{"PATH=/bin"},
			"Labels": map[string]string{"org.opencontainers.image.ref.name": name},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": l.blob("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{l.blob("application/vnd.oci.image.layer.v1.tar", layer)},
	})
	if err != nil {
		return nil, err
	}
	described := l.blob("application/vnd.oci.image.manifest.v1+json", manifest)
	described["annotations"] = map[string]string{"io.containerd.image.name": name}
	described["platform"] = map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	return described, nil
}

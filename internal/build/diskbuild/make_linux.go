package diskbuild

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/sandbox"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// makers are the programs that make root file systems, with arguments before the UUID and
// the device. GRUB 2.06 cannot read what newer versions of mkfs.ext4 add by themselves.
var makers = map[string][]string{
	"ext4": {
		"mkfs.ext4", "-q", "-F", "-L", "root", "-O",
		"none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent," +
			"64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum", "-U",
	},
	"xfs": {"mkfs.xfs", "-q", "-f", "-L", "root", "-m"},
}

// tableOf is the partition table of a new disk, for sfdisk. The numbers of the partitions
// are those of the constants.
const (
	tableOf = `label: gpt
label-id: %[1]s
start=1MiB, size=1MiB, type=21686148-6449-6E6F-744E-656564454649, uuid=%[2]s
size=512MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, uuid=%[3]s, name=ESP
type=%[4]s, uuid=%[5]s, name=root
`
	biosNumber, espNumber, rootNumber = 1, 2, 3
)

// rootTypes are the types of root partitions in the Discoverable Partitions Specification.
var rootTypes = map[string]string{
	"amd64": "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", "arm64": "B921B045-1DF0-41C3-AF44-4C6F280D3FAE",
}

// defaultSize is the size of a disk that is made of a root, in GiB.
const defaultSize = 8

// making is the input of the work that fills a new disk.
type making struct {
	// UUID is that of the root file system, and Volume the number of the ESP's.
	UUID, Volume string
	Arch         string
	BIOS, ESP    disk.Range
}

// openRoot opens a base image that is a folder or a tar file. Others give nil.
func openRoot(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return f, nil
	}
	if content, err := expanded(f); err == nil && isTar(content) {
		_, err = f.Seek(0, io.SeekStart)
		return f, err
	}
	return nil, errors.Join(err, f.Close())
}

// expanded returns the content of a file that may be compressed.
func expanded(f io.Reader) (*bufio.Reader, error) {
	content := bufio.NewReader(f)
	head, _ := content.Peek(16) // a short file is no compressed one
	if !expand.Is(head) {
		return content, nil
	}
	plain, err := expand.Open(head, content)
	return bufio.NewReader(plain), err
}

// isTar reports whether the content is a tar archive of POSIX or GNU.
func isTar(content *bufio.Reader) bool {
	head, err := content.Peek(512)
	return err == nil && bytes.HasPrefix(head[257:], []byte("ustar"))
}

// makeDisk makes a disk that boots the system in the folder or tar file from.
func (b Build) makeDisk(ctx context.Context, from, to *os.File) (*disk.Layout, error) {
	kind := cmp.Or(b.FileSystem, "ext4")
	maker := slices.Clone(makers[kind])
	for _, program := range []string{"sfdisk", "mkfs.vfat", "mcopy", maker[0]} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("making a disk of a folder or tar file needs %s: install the packages fdisk "+
				"(Fedora: util-linux), dosfstools, mtools, and e2fsprogs or xfsprogs", program)
		}
	}
	if err := to.Truncate(int64(cmp.Or(b.Size, defaultSize)) << 30); err != nil {
		return nil, err
	}
	id := func(of string) string { // the same base gives the same disk
		sum := sha256.Sum256([]byte(of + " of " + b.File))
		sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // RFC 9562, 5.8
		return show.UUID(sum[:])
	}
	arch := cmp.Or(b.Arch, runtime.GOARCH)
	table := fmt.Sprintf(tableOf, id("disk"), id("BIOS boot"), id("ESP"), rootTypes[arch], id("partition"))
	if err := onDisk(ctx, to, strings.NewReader(table), "sfdisk", "--quiet", thatDisk); err != nil {
		return nil, err
	}
	layout, err := disk.ReadLayout(to)
	if err != nil {
		return nil, err
	}
	root := &layout.Partitions[rootNumber-1]
	root.Kind = kind
	input := making{UUID: id("root"), Volume: id("ESP")[:8], Arch: arch}
	input.BIOS, input.ESP = layout.Partitions[biosNumber-1].Range, layout.Partitions[espNumber-1].Range
	if kind == "xfs" {
		maker = append(maker, "uuid="+input.UUID)
	} else {
		maker = append(maker, input.UUID, "-E", "hash_seed="+input.UUID)
	}
	work := diskaudit.Work{
		Disk: to, Layout: layout, Roots: []disk.Partition{*root}, Make: maker, Folder: from, Progress: b.Progress,
		Input: struct{ Making making }{input},
	}
	var none any
	if _, err := work.Run(ctx, &none); err != nil {
		return nil, err
	}
	return disk.ReadLayout(to)
}

// thatDisk is the path of the disk in a program that onDisk runs.
const thatDisk = "/proc/self/fd/3"

// onDisk runs a program of this machine, which has a file as thatDisk.
func onDisk(ctx context.Context, f *os.File, in io.Reader, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.ExtraFiles = in, []*os.File{f}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, errors.Join(context.Cause(ctx), err), strings.TrimSpace(string(out)))
	}
	return nil
}

// fill fills the empty file system in the folder root, and makes the disk boot.
func (m making) fill(ctx context.Context, root string) error {
	from := os.NewFile(diskaudit.WorkFile, "base image")
	if err := unpack(ctx, from, root); err != nil {
		return fmt.Errorf("copying the root, for which the disk may be too small: %w", err)
	}
	h, err := host.Mounted(root)
	if err != nil {
		return err
	}
	defer h.Close()
	if known, err := h.Exists("/etc/os-release"); err != nil || !known {
		return errors.Join(err, errNoRoot)
	}
	if found := h.Arch(); found != "" && found != m.Arch {
		return fmt.Errorf("the base image is for %s, not %s: use the Packer builder eksnode-disk with %v", found,
			m.Arch, surface.Name("base_arch").Is(found))
	}
	if err := CanRun(h); err != nil {
		return err
	}
	if err := m.prepare(h); err != nil {
		return err
	}
	var said bytes.Buffer
	why, err := sandbox.Script(ctx, root, "UUID="+m.UUID+" DEVICE="+sandbox.RootDevice+"\n"+loader, &said)
	if text := strings.TrimSpace(string(why)); text != "" {
		return errors.New(text)
	}
	if err != nil {
		return fmt.Errorf("installing the boot loader: %w: %s", err, strings.TrimSpace(said.String()))
	}
	made := os.NewFile(diskaudit.DiskFile, "disk")
	if err := m.fillESP(ctx, h, made); err != nil {
		return fmt.Errorf("filling the EFI system partition: %w", err)
	}
	if err := m.embed(h, made); err != nil {
		return fmt.Errorf("writing the boot loader for BIOS: %w", err)
	}
	return nil
}

// loader is the script that installs the boot loader of the root.
//
//go:embed loader.sh
var loader string

// unpack copies the content of a folder or tar file.
func unpack(ctx context.Context, from *os.File, root string) error {
	if info, err := from.Stat(); err != nil || info.IsDir() {
		return errors.Join(err, onDisk(ctx, from, nil, "cp", "--archive", "--one-file-system", thatDisk+"/.", root))
	}
	content, err := expanded(from)
	if err != nil {
		return err
	}
	return onDisk(ctx, from, content, "tar", "--extract", "--file=-", "--directory="+root, "--preserve-permissions",
		"--same-owner", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls")
}

// prepare makes folders that every system has, and the fstab. Lines for other places stay.
func (m making) prepare(h *host.Host) error {
	for _, folder := range []string{"/proc", "/sys", "/dev", "/run", "/tmp", efi} {
		if err := h.Files.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	old, err := h.Content("/etc/fstab")
	if err != nil {
		return err
	}
	volume := strings.ToUpper(m.Volume[:4] + "-" + m.Volume[4:])
	text := fmt.Sprintf("UUID=%s / auto defaults 0 1\nUUID=%s %s vfat umask=0077,nofail 0 2\n", m.UUID, volume, efi)
	for line := range strings.Lines(string(old)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !slices.Contains([]string{"/", "/boot", efi, "/efi"}, fields[1]) {
			text += line
		}
	}
	return h.Files.WriteFile("/etc/fstab", []byte(text), host.Attributes{Mode: 0o644})
}

// efi is where the root mounts the EFI system partition.
const efi = "/boot/efi"

// fillESP makes the EFI system partition of the files that the root has in its place. The
// kernel of this machine may lack vfat.
func (m making) fillESP(ctx context.Context, h *host.Host, made *os.File) error {
	err := onDisk(ctx, made, nil, "mkfs.vfat", "--invariant", "-F", "32", "-n", "ESP", "-i", m.Volume,
		fmt.Sprintf("--offset=%d", m.ESP.Offset/512), thatDisk, fmt.Sprint(m.ESP.Length>>10))
	if err != nil {
		return err
	}
	files, err := os.MkdirTemp("", "efi-")
	if err != nil {
		return err
	}
	_, err = h.Files.Walk(ctx, efi, efi, func(e host.Entry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(files, strings.TrimPrefix(e.Path, efi))
		switch {
		case e.IsDir():
			return os.MkdirAll(to, 0o755)
		case !e.Mode().IsRegular():
			return fmt.Errorf("%s: vfat has only folders and regular files", e.Path)
		}
		in, err := h.Files.OpenRegular(e.Path)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.Create(to)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close(), os.Chtimes(to, e.ModTime(), e.ModTime()))
	})
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(files)
	if err != nil {
		return err
	}
	args := []string{"-s", "-m", "-i", fmt.Sprintf("%s@@%d", thatDisk, m.ESP.Offset)}
	for _, e := range entries {
		args = append(args, filepath.Join(files, e.Name()))
	}
	if len(entries) > 0 {
		err = onDisk(ctx, made, nil, "mcopy", append(args, "::/")...)
	}
	if err == nil {
		_, err = h.Files.RemoveContents(efi)
	}
	return err
}

// embed writes GRUB's first sector, and its core image into the BIOS boot partition. The
// places of numbers are those of grub-core/boot/i386/pc/boot.S and diskboot.S, as
// grub-bios-setup writes them.
func (m making) embed(h *host.Host, made *os.File) error {
	for _, folder := range []string{"/boot/grub/i386-pc", "/boot/grub2/i386-pc"} {
		core, err := h.Files.Read(path.Join(folder, "core.img"), m.BIOS.Length)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		boot, err := h.Files.Read(path.Join(folder, "boot.img"), 512)
		if err != nil {
			return err
		}
		if len(boot) != 512 || len(core) < 1024 {
			return fmt.Errorf("boot.img has %d bytes and core.img %d, so they are not GRUB's", len(boot), len(core))
		}
		start := uint64(m.BIOS.Offset / 512)
		binary.LittleEndian.PutUint64(boot[0x5c:], start)
		copy(boot[0x66:], "\x90\x90") // the drive that the BIOS names is right
		binary.LittleEndian.PutUint64(core[500:], start+1)
		_, err = made.WriteAt(boot[:440], 0)
		if err == nil {
			_, err = made.WriteAt(core, m.BIOS.Offset)
		}
		return err
	}
	return nil
}

var errNoRoot = errors.New("the base image has no /etc/os-release: give the folder or tar file of a whole root")

// errFileSystem is the error about an option that only a new disk has.
var errFileSystem = surface.Errorf("{root_file_system} is only for a folder or tar file as {base}; a disk has its " +
	"file system")

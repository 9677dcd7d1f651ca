package diagnose

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// ill returns a log whose second line shows a cause.
func ill() string {
	return "I1120 20:11:12.325154   11577 an ordinary line\n" + lines["swap"][0] + "\n"
}

func gzipped(_ testing.TB, text string) string { return string(testkit.Gzip(text)) }

func zstandardized(t testing.TB, text string) string {
	return string(testkit.Packed(t, func(w io.Writer) (*zstd.Encoder, error) { return zstd.NewWriter(w) }, text))
}

func xzipped(t testing.TB, text string) string { return string(testkit.Packed(t, xz.NewWriter, text)) }

// tarred returns a tar archive like that of the EKS log collector, with a folder, a
// link, and files given as pairs of name and text.
func tarred(t testing.TB, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "./passwd", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}))
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: pairs[i], Mode: 0o600, Size: int64(len(pairs[i+1]))}))
		_, err := io.WriteString(w, pairs[i+1])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String()
}

func zipped(t testing.TB, pairs ...string) string { return string(testkit.Zip(t, pairs...)) }

// bzipped is ill's second line compressed by bzip2 1.0.8. Go cannot compress bzip2.
const bzipped = "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x58\xdf\x0c\x3c\x00\x00\x25\x5f\x80\x00\x10\x50\x07\xfe\xb2\x03\x08\x00\x0a\x3f\xe7\xde\x80\x30\x00\xa6\xc2\x29\xb2\x99\x34\x9b\x46\x9a\x47\x90\x19\x13\x68\xf5\x4d\x08\x51\xe9\x31\xa0\x80\x0d\x00\x00\x0a\xc9\xa1\x1a\x3d\x41\x90\x03\x40\x00\x1b\x09\xe6\xb2\xbf\x9c\x0e\x3e\xa3\xd2\x81\x3d\x83\x69\xc6\xb3\xba\x6c\x9b\x10\xe1\xbf\x51\x17\xdd\xda\xf5\xc1\x53\x96\xce\xa5\x12\x22\xd1\x65\xa2\x63\x09\x26\x81\xad\x24\xe8\x15\x59\x65\x1f\xad\x06\xfb\xd9\xfd\x50\xc4\x40\xfc\x00\xab\xc3\x6f\x36\xad\x40\x09\x33\x19\x12\x06\xcf\x49\x8c\x4e\x8d\x50\x4b\x16\x2d\x20\xf0\x54\xbb\xa9\xf9\xf3\xec\x40\xe6\xb8\x5f\x50\xa0\x54\x4b\x41\xa1\xc9\x94\x39\x86\xf5\xa6\x38\x9e\x6d\x12\x26\x7a\x86\x9c\x8f\x25\x09\x3c\x13\x6a\x00\x1c\x6b\x5c\x4d\x61\xa8\x3e\x21\x80\x81\x7e\x2e\xe4\x8a\x70\xa1\x20\xb1\xbe\x18\x78"

// file writes a file into a new folder.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// looked returns the report of a search in a file, and the error with the file's
// base name.
func looked(t *testing.T, path string) (Report, string) {
	t.Helper()
	s := NewSearch(t.Context()).WithUserData(func(text []byte) (family string, faults []string, err error) {
		r, err := userdata.CheckMerged(text, "")
		for _, p := range r.Problems {
			faults = append(faults, p.String())
		}
		return r.Family, faults, err
	})
	err := s.File(path)
	return s.Report(), told(err, filepath.Dir(path))
}

func told(err error, folder string) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), folder+"/", "")
}

func TestCompressedAndEncodedLogsAreRead(t *testing.T) {
	deep := func(n int) string {
		text := ill()
		for range n {
			text = gzipped(t, text)
		}
		return text
	}
	for name, c := range map[string]struct{ text, at string }{
		"kubelet.log":           {ill(), ":2:"},
		"kubelet.log.gz":        {gzipped(t, ill()), ":2:"},
		"two.gz":                {gzipped(t, "one\n") + gzipped(t, ill()), ":3:"},
		"kubelet.log.zst":       {zstandardized(t, ill()), ":2:"},
		"kubelet.log.xz":        {xzipped(t, ill()), ":2:"},
		"kubelet.log.bz2":       {bzipped, ":1:"},
		"no-extension":          {gzipped(t, ill()), ":2:"},
		"four.gz":               {deep(4), ":2:"},
		"little.log":            {testkit.UTF16(binary.LittleEndian, "\ufeff"+ill()), ":2:"},
		"big.log":               {testkit.UTF16(binary.BigEndian, "\ufeff"+ill()), ":2:"},
		"little-unmarked.log":   {testkit.UTF16(binary.LittleEndian, ill()), ":2:"},
		"big-unmarked.log":      {testkit.UTF16(binary.BigEndian, ill()), ":2:"},
		"little.log.gz":         {gzipped(t, testkit.UTF16(binary.LittleEndian, "\ufeff"+ill())), ":2:"},
		"mark.log":              {"\xef\xbb\xbf" + ill(), ":2:"},
		"windows.log":           {strings.ReplaceAll(ill(), "\n", "\r\n"), ":2:"},
		"no-end.log":            {strings.TrimSuffix(ill(), "\n"), ":2:"},
		"latin1.log":            {strings.Repeat("Gr\xfc\xdfe\n", 9) + ill(), ":11:"},
		"crash.log":             {strings.Repeat("a line of a machine that lost its power\n", 200) + strings.Repeat("\x00", 9000) + "\n" + ill(), ":203:"},
		"long.log":              {strings.Repeat("a", 9<<20) + "\n" + ill(), ":3:"},
		"logs.tar":              {tarred(t, "./var_log/messages", ill()), ":var_log/messages:2:"},
		"eks_i-0_logs.tar.gz":   {gzipped(t, tarred(t, "./kubelet/svc.log", "", "./bin", "\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00", "./kubelet/kubelet.log", ill())), ":kubelet/kubelet.log:2:"},
		"rotated.tar.zst":       {zstandardized(t, tarred(t, "var_log/messages.1.gz", gzipped(t, ill()))), ":var_log/messages.1.gz:2:"},
		"nested.tar":            {tarred(t, "in.zip", zipped(t, "deep/kubelet.log", ill())), ":in.zip:deep/kubelet.log:2:"},
		"eks_i-0_logs.zip":      {zipped(t, "kubelet\\kubelet.log", testkit.UTF16(binary.LittleEndian, "\ufeff"+ill())), `:kubelet\kubelet.log:2:`},
		"steering.tar":          {tarred(t, "a\x1b[2Jb", ill()), `:a\x1b[2Jb:2:`},
		"json.log":              {`{"MESSAGE":"one","PRIORITY":"6"}` + "\n" + `{"PRIORITY":"6","MESSAGE":` + quoted(lines["swap"][0]) + "}\n", ":2:"},
		"json-seq.log":          {"\x1e{\"MESSAGE\":" + quoted(lines["swap"][0]) + "}\n", ":1:"},
		"json-sse.log":          {"data: {\"MESSAGE\":" + quoted(lines["swap"][0]) + "}\n\n", ":1:"},
		"json-pretty.log":       {"{\n\t\"PRIORITY\" : \"6\",\n\t\"MESSAGE\" : " + quoted(lines["swap"][0]) + "\n}\n", ":3:"},
		"json-bytes.log":        {`{"MESSAGE":` + numbers("\x1b[1m"+lines["swap"][0]) + "}\n", ":1:"},
		"container.log":         {`{"log":` + quoted(lines["swap"][0]+"\n") + `,"stream":"stderr"}` + "\n", ":1:"},
		"get-console-output.js": {"{\n    \"InstanceId\": \"i-0\",\n    \"Output\": " + quoted("boot\r\n"+lines["swap"][0]+"\r\n") + ",\n}\n", ":3:"},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, name, c.text)
			r, wrong := looked(t, path)
			assert.Empty(t, wrong)
			require.Len(t, r.Findings, 1)
			assert.Equal(t, "swap", r.Findings[0].Rule.ID)
			require.Len(t, r.Findings[0].Evidence, 1)
			assert.Contains(t, r.Findings[0].Evidence[0], path+c.at+" ")

			s := NewSearch(t.Context())
			require.NoError(t, s.Input("standard input", strings.NewReader(c.text)))
			require.Len(t, s.Report().Findings, 1)
			assert.Contains(t, s.Report().Findings[0].Evidence[0], "standard input"+c.at+" ")
		})
	}
}

func TestFilesThatAreNoLogsAreErrors(t *testing.T) {
	whole := gzipped(t, tarred(t, "kubelet.log", ill(), "noise", noise()))
	for name, c := range map[string]struct{ text, want string }{
		"empty.log":    {"", "reading empty.log: the file is empty"},
		"numbers":      {"\x00\x01\x00\x02\x00\x03\x00\x04\x00\x05", "reading numbers: the file is neither text nor an archive or compression that eksnode supports (gzip, zstd, bzip2, xz, tar, zip)"},
		"mark.log":     {"\xff\xfe", "reading mark.log: the file is empty"},
		"empty.gz":     {gzipped(t, ""), "reading empty.gz: the file is empty"},
		"binary":       {noise(), "reading binary: the file is neither text nor an archive or compression that eksnode supports (gzip, zstd, bzip2, xz, tar, zip)"},
		"zeros.gz":     {gzipped(t, strings.Repeat("\x00", 1<<20)), "reading zeros.gz: the file is neither text nor an archive or compression that eksnode supports (gzip, zstd, bzip2, xz, tar, zip)"},
		"old.journal":  {"LPKSHHRH\x00\x00", "reading old.journal: the file is a systemd journal, and this machine has no journalctl; save the output of `journalctl --file` on another machine, and name that file"},
		"cut.gz":       {gzipped(t, noise())[:3000], "reading cut.gz: the file is cut off"},
		"cut.tar.gz":   {whole[:len(whole)-40], "reading cut.tar.gz: the file is cut off"},
		"head.gz":      {"\x1f\x8b\x08", "reading head.gz: the file is cut off"},
		"head.xz":      {"\xfd7zXZ\x00", "reading head.xz: the file is cut off"},
		"greedy.xz":    {"\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x28\x00\x00\x00\x00\x00\x00\x00", "reading greedy.xz: expanding takes more than 128 MiB of memory"},
		"deep.gz":      {gzipped(t, gzipped(t, gzipped(t, gzipped(t, gzipped(t, ill()))))), "reading deep.gz: archives are nested more than 4 deep"},
		"no-logs.tar":  {tarred(t, "a", noise(), "b", ""), "reading no-logs.tar: the archive contains no readable log"},
		"no-files.zip": {zipped(t), "reading no-files.zip: the archive contains no readable log"},
		"cut.zip":      {zipped(t, "kubelet.log", ill())[:100], "reading cut.zip: zip: not a valid zip file"},
	} {
		t.Run(name, func(t *testing.T) {
			r, wrong := looked(t, file(t, name, c.text))
			assert.Equal(t, c.want, wrong)
			if name == "cut.tar.gz" {
				require.Len(t, r.Findings, 1, "lines before the error must be searched")
			} else {
				assert.Empty(t, r.Findings)
			}
		})
	}
}

// The size of expanded archives is limited.
func TestExpandedSizeIsLimited(t *testing.T) {
	for name, text := range map[string]string{
		"lines.gz":    gzipped(t, strings.Repeat("a line\n", 1<<20)),
		"a-line.zst":  zstandardized(t, strings.Repeat("a", 8<<20)),
		"bomb.tar.gz": gzipped(t, tarred(t, "a", strings.Repeat("a line\n", 1<<20))),
		"bomb.zip":    zipped(t, "a", strings.Repeat("a line\n", 1<<20)),
	} {
		s := NewSearch(t.Context())
		s.budget = 1 << 20
		err := s.File(file(t, name, text))
		assert.ErrorContains(t, err, "the expanded content has more than 1024 MiB", name)
	}
}

func TestAFolderIsReadCompletely(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "pods/a"), 0o755))
	_, wrong := looked(t, folder)
	assert.Contains(t, wrong, "contains no readable log")
	for name, text := range map[string]string{"pods/a/0.log": ill(), "empty": "", "noise": noise(), "rotated.gz": gzipped(t, ill())} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(folder, "link")))
	link := filepath.Join(t.TempDir(), "logs")
	require.NoError(t, os.Symlink(folder, link))
	for _, name := range []string{folder, link, folder + "/"} {
		r, wrong := looked(t, name)
		assert.Empty(t, wrong)
		require.Len(t, r.Findings, 1)
		assert.Equal(t, 2, r.Findings[0].Count)
		assert.Contains(t, r.Findings[0].Evidence[0], filepath.Join(name, "pods/a/0.log")+":2: ")
		assert.Contains(t, r.Findings[0].Evidence[1], filepath.Join(name, "rotated.gz")+":2: ")
		assert.Equal(t, []string{filepath.Join(name, "noise")}, r.PassedOver)
	}
}

func TestFirstErrorsAreShownIfNoCauseIsFound(t *testing.T) {
	r := searched(t, `x
I1120 20:11:12.325154   11577 a.go:1] "Failed to do what need not be done"
time="2026-11-22T06:51:44Z" level=warning msg="no such thing"
E1120 20:11:13.325154   11577 a.go:2] "Something is wrong" err="it is"
E1120 20:11:14.325154   11577 a.go:2] "Something is wrong" err="it is"
the mirror is available
systemd[1]: ordinary.service: Failed with result 'exit-code'.
`)
	assert.Equal(t, `unknown: no known cause was found
the first failure, of x:
  x:3: E1120 20:11:13.325154   11577 a.go:2] "Something is wrong" err="it is"
lines around it:
  x:1: I1120 20:11:12.325154   11577 a.go:1] "Failed to do what need not be done"
  x:2: time="2026-11-22T06:51:44Z" level=warning msg="no such thing"
  x:4: E1120 20:11:14.325154   11577 a.go:2] "Something is wrong" err="it is"
  x:5: the mirror is available
the first lines that look like errors:
  x:3: E1120 20:11:13.325154   11577 a.go:2] "Something is wrong" err="it is"
  x:6: systemd[1]: ordinary.service: Failed with result 'exit-code'.
`+collect, printed(t, r))
	assert.Equal(t, "unknown: no known cause was found\nnone of the 3 lines looks like an error\n"+collect,
		printed(t, searched(t, "x\nall\nis\nwell\n")))
	assert.Equal(t, "x:2: W0217 14:19:11.4 1 a.go:1] \"Odd\"",
		searched(t, "x\nwell\nW0217 14:19:11.4 1 a.go:1] \"Odd\"").First.Line)
}

// Evidence contains no terminal escapes.
func TestEvidenceIsPrintable(t *testing.T) {
	found := searched(t, "x\n\a"+lines["swap"][0]+"\u202e\n").Findings
	require.Len(t, found, 1)
	assert.Contains(t, found[0].Evidence[0], `x:1: \a`)
	assert.Contains(t, found[0].Evidence[0], `\u202e`)
}

func TestAnInterruptStopsASearch(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	assert.EqualError(t, NewSearch(ctx).Input("x", strings.NewReader(ill())), "reading x: interrupt signal received")
}

func FuzzInput(f *testing.F) {
	for _, text := range []string{
		"", ill(), gzipped(f, ill()), zstandardized(f, ill()), xzipped(f, ill()), bzipped, tarred(f, "./a/b", ill()), zipped(f, "a", ill()),
		gzipped(f, tarred(f, "a", gzipped(f, ill()))), testkit.UTF16(binary.LittleEndian, "\ufeff"+ill()), testkit.UTF16(binary.BigEndian, ill()), "\xef\xbb\xbf" + ill(),
		`{"MESSAGE":[27,91,49,109]}`, "\t\"MESSAGE\" : \"a\",\n", noise(), "LPKSHHRH",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := NewSearch(t.Context())
		s.budget = 16 << 20
		err := s.Input("x", bytes.NewReader(text))
		r := s.Report()
		if err == nil && r.Lines == 0 {
			t.Fatal("nothing was read, but there was no error")
		}
		var b bytes.Buffer
		require.NoError(t, r.Print(&b))
		assert.NotContains(t, b.String(), "\x1b")
	})
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text is always JSON
	}
	return string(b)
}

// numbers returns text as a list of bytes, which is journalctl's form for unprintable
// text.
func numbers(text string) string {
	return strings.ReplaceAll(fmt.Sprint([]byte(text)), " ", ",")
}

// noise is not text and does not compress.
func noise() string {
	b := make([]byte, 8<<10)
	state := uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return string(b)
}

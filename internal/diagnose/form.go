package diagnose

import (
	"encoding/json"
	"strconv"
	"strings"
)

// lineForm is the form of a text's lines, which the first line shows.
type lineForm struct {
	known    bool
	exported bool
	csv      bool
	// bytes are those of an unprintable text in json-pretty, one a line, or nil.
	bytes []byte
	// fields are those of the present entry of an export.
	fields map[string]json.RawMessage
}

// lines are the log lines in a line of the text.
func (f *lineForm) lines(line string) []extract {
	if !f.known && line != "" {
		f.known = true
		f.exported = strings.HasPrefix(line, "__CURSOR=")
		// What PowerShell's Export-Csv writes about events.
		f.csv = strings.HasPrefix(line, "#TYPE ") || strings.HasPrefix(line, `"Message",`)
	}
	switch {
	case f.exported:
		return f.ofExport(line)
	case f.csv:
		return []extract{{line: strings.ReplaceAll(line, `""`, `"`)}}
	case f.bytes != nil:
		return f.ofBytes(strings.TrimSpace(line))
	case strings.HasSuffix(line, `"MESSAGE" : [`):
		f.bytes = []byte{}
		return nil
	default:
		return unwrap(line)
	}
}

// ofBytes reads a line with one byte.
func (f *lineForm) ofBytes(line string) []extract {
	n, err := strconv.ParseUint(strings.TrimSuffix(line, ","), 10, 8)
	if err == nil && len(f.bytes) < lineMost {
		f.bytes = append(f.bytes, byte(n))
		return nil
	}
	said := string(f.bytes)
	f.bytes = nil
	return linesOf(said, journalEntry{}, 0)
}

// ofExport reads a line of journalctl --output export: NAME=VALUE. An unprintable
// value has a line without =, and follows its size in eight bytes.
// https://systemd.io/JOURNAL_EXPORT_FORMATS/
func (f *lineForm) ofExport(line string) []extract {
	name, value, found := strings.Cut(line, "=")
	switch {
	case line == "":
		f.fields = nil
	case found && isFieldName(name) && name != "MESSAGE":
		if f.fields == nil {
			f.fields = map[string]json.RawMessage{}
		}
		if raw, err := json.Marshal(value); err == nil {
			f.fields[name] = raw
		}
	case found && name == "MESSAGE":
		return []extract{{value, entryOf(f.fields)}}
	case !isFieldName(line): // a part of an unprintable value
		return []extract{{line, entryOf(f.fields)}}
	}
	return nil
}

// isFieldName says whether a text is the name of a journal's field.
func isFieldName(text string) bool {
	return text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}

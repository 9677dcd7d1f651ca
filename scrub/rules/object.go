package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
)

// object is a JSON object that keeps the order of its keys, so that an edited
// file keeps the order of its author.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// parseObject reads a JSON object. A repeated key is an error, and so is text
// after the object.
func parseObject(text []byte) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errors.New("the text does not start with {")
	}
	o := &object{values: map[string]json.RawMessage{}}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("a key is not a string: %v", t)
		}
		if _, twice := o.values[key]; twice {
			return nil, fmt.Errorf("the key %q is repeated", key)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		o.keys, o.values[key] = append(o.keys, key), v
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the object")
	}
	return o, nil
}

func (o *object) set(key string, v json.RawMessage) bool {
	old, ok := o.values[key]
	if ok && sameJSON(old, v) {
		return false
	}
	if !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
	return true
}

func (o *object) remove(key string) bool {
	if _, ok := o.values[key]; !ok {
		return false
	}
	delete(o.values, key)
	o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
	return true
}

func (o *object) equal(p *object) bool {
	if len(o.keys) != len(p.keys) {
		return false
	}
	return !slices.ContainsFunc(o.keys, func(k string) bool {
		v, ok := p.values[k]
		return !ok || !sameJSON(o.values[k], v)
	})
}

// compact returns the object as snapd writes it: in one line.
func (o *object) compact() (json.RawMessage, error) {
	var b, out bytes.Buffer
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), o.values[k]...))
	}
	err := json.Compact(&out, fmt.Appendf(nil, "{%s}", b.Bytes()))
	return out.Bytes(), err
}

// text returns the object as jq(1) prints it: indented by two spaces.
func (o *object) text() ([]byte, error) {
	text, err := o.compact()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, text, "", "  ")
	return append(out.Bytes(), '\n'), err
}

func sameJSON(a, b json.RawMessage) bool {
	var va, vb any
	return json.Unmarshal(a, &va) == nil && json.Unmarshal(b, &vb) == nil && reflect.DeepEqual(va, vb)
}

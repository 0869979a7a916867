package scenario

import (
	"errors"
	"fmt"
	"slices"
)

// event is something that happens to the processes of nodes while a step's objects come in.
type event struct {
	what  string // restart or fail
	nodes any    // as written
	alone bool   // the only key of its document
}

// eventOf reads a document such as "restart: [node-a]".
func eventOf(doc map[string]any) (event, bool) {
	for _, what := range []string{"restart", "fail"} {
		if list, ok := doc[what]; ok {
			return event{what, list, len(doc) == 1}, true
		}
	}
	return event{}, false
}

func (o *objects) happens(e event, later bool) error {
	switch {
	case !later:
		return fmt.Errorf("%s: nothing runs yet in the first file", e.what)
	case !e.alone:
		return fmt.Errorf("%s: must be the only key of its document", e.what)
	}
	o.events = append(o.events, e)
	return nil
}

// add writes the event down in the state that it leads to.
func (e event) add(st *State) error {
	list, ok := e.nodes.([]any)
	if !ok || len(list) == 0 {
		return errors.New(e.what + ": want a list of nodes such as [node-a]")
	}
	for _, it := range list {
		name, _ := it.(string)
		if !slices.Contains(st.Nodes, name) {
			return fmt.Errorf("%s: there is no node %v%s", e.what, it, didYouMean(name, st.Nodes...))
		}
		if e.what == "restart" {
			st.Restart = append(st.Restart, name)
		} else {
			st.Failing = append(st.Failing, name)
		}
	}
	return nil
}

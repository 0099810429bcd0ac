#include "batching/window.h"

#include <assert.h>

static struct prefix_node *wait_for_path(struct window *window, const struct sequence *sequence)
{
    // The prompt's last token is always computed: its logits give the first token of the answer.
    const struct token_array *tokens = &sequence->prompt->tokens;
    int32_t n_pages = ((int32_t)tokens->n_ids - 1) / window->tree->page_positions;
    return prefix_wait(window->tree, tokens->ids, n_pages, sequence->prompt->long_context);
}

bool window_add(struct window *window, struct sequence *sequence)
{
    struct prefix_node *node = wait_for_path(window, sequence);
    if (!node)
        return false;
    sequence->node = node;
    sequence->arrival = window->n_admitted;
    sequence->node_next = NULL;
    sequence->node_previous = node->sequences_last;
    if (node->sequences_last)
        ((struct sequence *)node->sequences_last)->node_next = sequence;
    else
        node->sequences_first = sequence;
    node->sequences_last = sequence;
    sequence->younger = NULL;
    sequence->older = window->youngest;
    if (window->youngest)
        window->youngest->younger = sequence;
    else
        window->oldest = sequence;
    window->youngest = sequence;
    window->n_waiting++;
    return true;
}

bool window_add_preempted(struct window *window, struct sequence *sequence)
{
    struct prefix_node *node = wait_for_path(window, sequence);
    if (!node)
        return false;
    sequence->node = node;
    struct sequence **link = &window->preempted;
    while (*link && (*link)->admission < sequence->admission)
        link = &(*link)->younger;
    sequence->younger = *link;
    *link = sequence;
    window->n_waiting++;
    return true;
}

static bool is_preempted(const struct window *window, const struct sequence *sequence)
{
    for (const struct sequence *s = window->preempted; s; s = s->younger)
        if (s == sequence)
            return true;
    return false;
}

static bool is_blocked(const struct sequence *sequence)
{
    bool blocked;
    prefix_ready(sequence->node, &blocked);
    return blocked;
}

// The first sequence at or below a node whose own path is not being computed by another. At most as many children are
// passed over as sequences are computing prompts. Recursion only where paths part: a long prompt costs no stack.
static struct sequence *next_under(const struct prefix_node *node)
{
    while (!node->sequences_first && node->wait_first && node->wait_first == node->wait_last) {
        node = node->wait_first;
        if (node->owner && !node->ready)
            return NULL;
    }
    if (node->sequences_first)
        return node->sequences_first;
    for (const struct prefix_node *child = node->wait_first; child; child = child->wait_next) {
        struct sequence *sequence = child->owner && !child->ready ? NULL : next_under(child);
        if (sequence)
            return sequence;
    }
    return NULL;
}

// The nearest one: below the node, else below its parent, and so on up.
static struct sequence *next_from(const struct prefix_node *node)
{
    for (; node; node = node->parent) {
        struct sequence *sequence = node->n_waiting ? next_under(node) : NULL;
        if (sequence && !is_blocked(sequence))
            return sequence;
    }
    return NULL;
}

struct sequence *window_next(const struct window *window)
{
    if (window->preempted)
        return is_blocked(window->preempted) ? NULL : window->preempted;
    struct sequence *oldest = window->oldest;
    if (!oldest)
        return NULL;
    if (window->n_admitted - oldest->arrival > WINDOW_PASSED_MAX && !is_blocked(oldest))
        return oldest;
    struct sequence *sequence = next_from(window->tree->cursor);
    for (int i = 0; i < 2 && !sequence; i++)
        sequence = next_from(window->tree->roots[i]);
    return sequence;
}

static void unlink_waiting(struct window *window, struct sequence *sequence)
{
    struct prefix_node *node = sequence->node;
    if (sequence->node_previous)
        sequence->node_previous->node_next = sequence->node_next;
    else
        node->sequences_first = sequence->node_next;
    if (sequence->node_next)
        sequence->node_next->node_previous = sequence->node_previous;
    else
        node->sequences_last = sequence->node_previous;
    if (sequence->older)
        sequence->older->younger = sequence->younger;
    else
        window->oldest = sequence->younger;
    if (sequence->younger)
        sequence->younger->older = sequence->older;
    else
        window->youngest = sequence->older;
}

void window_remove(struct window *window, struct sequence *sequence, bool admitted)
{
    if (is_preempted(window, sequence)) {
        struct sequence **link = &window->preempted;
        while (*link != sequence)
            link = &(*link)->younger;
        *link = sequence->younger;
    } else {
        unlink_waiting(window, sequence);
    }
    sequence->node_next = sequence->node_previous = sequence->older = sequence->younger = NULL;
    window->n_waiting--;
    if (admitted) {
        window->n_admitted++;
        window->tree->cursor = sequence->node;
    }
    prefix_unwait(window->tree, sequence->node);
}

// Intrusive doubly linked list in order of insertion. An item has one link for each list that it can be in. A
// zeroed list is empty; the caller owns the items. All operations are O(1) and allocate nothing. A link is in
// at most one list; a removed link is zeroed.
// Thread: the owner's.
#pragma once

#include <stddef.h>

struct list_link {
    struct list_link *previous, *next; // NULL: at the list's end
};

struct list {
    struct list_link *first, *last; // NULL: empty
};

// Inserts the link after `previous`, which is in the list; NULL: at the front.
static inline void list_insert(struct list *list, struct list_link *previous, struct list_link *link)
{
    *link = (struct list_link){previous, previous ? previous->next : list->first};
    *(link->previous ? &link->previous->next : &list->first) = link;
    *(link->next ? &link->next->previous : &list->last) = link;
}

static inline void list_append(struct list *list, struct list_link *link)
{
    list_insert(list, list->last, link);
}

static inline void list_remove(struct list *list, struct list_link *link)
{
    *(link->previous ? &link->previous->next : &list->first) = link->next;
    *(link->next ? &link->next->previous : &list->last) = link->previous;
    *link = (struct list_link){0};
}

static inline void *list_item_at(struct list_link *link, size_t offset)
{
    return link ? (char *)link - offset : NULL;
}

// Returns the item that contains the link as its member `member`; NULL if the link is NULL.
#define LIST_ITEM(link, type, member) ((type *)list_item_at(link, offsetof(type, member)))

// Loops over the items. The loop may remove the current item from the list.
#define LIST_EACH(type, item, list, member)                                                                  \
    for (type *item = LIST_ITEM((list)->first, type, member),                                                \
              *item##_next = item ? LIST_ITEM(item->member.next, type, member) : NULL;                       \
         item; item = item##_next, item##_next = item ? LIST_ITEM(item->member.next, type, member) : NULL)
